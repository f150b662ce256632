/** Adds the drive that a drive is a copy of, and the first one of that line. */

import type { Kysely } from "kysely";
import { execute, type MigrationContext } from "./migration.ts";

export async function up(db: Kysely<unknown>, { text }: MigrationContext): Promise<void> {
  await execute(db, [
    `alter table drives add column parent_id ${text}`,
    `alter table drives add column root_id ${text}`,
  ]);
}
