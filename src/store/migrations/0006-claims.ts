/** Adds a counter of the daemons that have claimed this database, so that each can tell whether another came later. */

import type { Kysely } from "kysely";
import { execute } from "./migration.ts";

export async function up(db: Kysely<unknown>): Promise<void> {
  await execute(db, ["create table claims (slot integer primary key check (slot = 1), epoch bigint not null)"]);
}
