/** Adds the limits of a key, its expiry, and its last use. */

import type { Kysely } from "kysely";
import { execute, type MigrationContext } from "./migration.ts";

export async function up(db: Kysely<unknown>, { text }: MigrationContext): Promise<void> {
  await execute(db, [
    `alter table api_keys add column project_id ${text}`,
    `alter table api_keys add column read_only smallint`,
    `alter table api_keys add column policy_ceiling ${text}`,
    `alter table api_keys add column expires_at bigint`,
    `alter table api_keys add column last_used_at bigint`,
  ]);
}
