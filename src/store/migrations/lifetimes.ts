/** The schema's second step: how a session's time is counted, and when it was last used. */

import type { Engine } from "../engines/engines.ts";

export function lifetimes({ text }: Pick<Engine, "text">): string[] {
  return [
    `alter table sandboxes add column lifetime ${text}`,
    `alter table sessions add column lifetime ${text}`,
    `alter table sessions add column last_activity_at bigint`,
    `create index sessions_open_of_project on sessions (project_id, created_at, id)
      where state in ('pending', 'running', 'snapshotting', 'stopping')`,
  ];
}
