/** Adds the id of the data directory that this database belongs to, in one row. */

import type { Kysely } from "kysely";
import { execute, type MigrationContext } from "./migration.ts";

export async function up(db: Kysely<unknown>, { text }: MigrationContext): Promise<void> {
  await execute(db, [`create table identity (slot integer primary key check (slot = 1), id ${text} not null)`]);
}
