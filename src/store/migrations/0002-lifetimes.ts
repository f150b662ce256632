/** How a session's time is counted, and when it was last used. */

import type { Words } from "./migration.ts";

export function lifetimes({ text }: Words): string[] {
  return [
    `alter table sandboxes add column lifetime ${text}`,
    `alter table sessions add column lifetime ${text}`,
    `alter table sessions add column last_activity_at bigint`,
    `create index sessions_open_of_project on sessions (project_id, created_at, id)
      where state in ('pending', 'running', 'snapshotting', 'stopping')`,
  ];
}
