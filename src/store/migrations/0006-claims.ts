/** How often a daemon has claimed this database, so that each knows whether another came after. */

import type { Kysely } from "kysely";
import { execute } from "./migration.ts";

export async function up(db: Kysely<unknown>): Promise<void> {
  await execute(db, ["create table claims (slot integer primary key check (slot = 1), epoch bigint not null)"]);
}
