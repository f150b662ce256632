/** Adds names of snapshots. */

import type { Kysely } from "kysely";
import { execute, type MigrationContext } from "./migration.ts";

export async function up(db: Kysely<unknown>, { text }: MigrationContext): Promise<void> {
  await execute(db, [
    `alter table snapshots add column name ${text}`,
    `alter table sandboxes add column snapshot_name ${text}`,
  ]);
}
