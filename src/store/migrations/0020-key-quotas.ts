/** Adds the quotas of keys, and an index of the sizes of a team's snapshots. */

import type { Kysely } from "kysely";
import { execute, type MigrationContext } from "./migration.ts";

export async function up(db: Kysely<unknown>, { text }: MigrationContext): Promise<void> {
  await execute(db, [
    `alter table api_keys add column quota ${text}`,
    `create index snapshots_sizes on snapshots (team_id, size_bytes) where state <> 'deleted'`,
  ]);
}
