/** Adds how a session's time is counted, and when it was last used. */

import type { Kysely } from "kysely";
import { execute, type MigrationContext } from "./migration.ts";

export async function up(db: Kysely<unknown>, { text }: MigrationContext): Promise<void> {
  await execute(db, [
    `alter table sandboxes add column lifetime ${text}`,
    `alter table sessions add column lifetime ${text}`,
    `alter table sessions add column last_activity_at bigint`,
    `create index sessions_open_of_project on sessions (project_id, created_at, id)
      where state in ('pending', 'running', 'snapshotting', 'stopping')`,
  ]);
}
