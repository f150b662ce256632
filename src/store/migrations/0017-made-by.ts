/** Adds which key made a sandbox, and over which API. */

import type { Kysely } from "kysely";
import { execute, type MigrationContext } from "./migration.ts";

export async function up(db: Kysely<unknown>, { text }: MigrationContext): Promise<void> {
  await execute(db, [`alter table sandboxes add column made_by ${text}`]);
}
