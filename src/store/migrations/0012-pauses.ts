/** Adds the state "paused" to the indexes of open sessions, when a session was paused, and what a timeout does. */

import type { Kysely } from "kysely";
import { execute, type MigrationContext } from "./migration.ts";

export async function up(db: Kysely<unknown>, { text }: MigrationContext): Promise<void> {
  const isOpen = `state in ('pending', 'running', 'paused', 'snapshotting', 'stopping')`;
  await execute(db, [
    `alter table sandboxes add column on_timeout ${text}`,
    `alter table sessions add column resumed_at bigint`,
    `alter table sessions add column paused_at bigint`,
    `alter table sessions add column paused_ms bigint`,
    `drop index sessions_open`,
    `create index sessions_open on sessions (created_at, id) where ${isOpen}`,
    `drop index sessions_open_of_project`,
    `create index sessions_open_of_project on sessions (project_id, created_at, id) where ${isOpen}`,
  ]);
}
