/** The schema's third step: what snapshots are called. */

import type { Engine } from "../engines/engines.ts";

export function snapshotNames({ text }: Pick<Engine, "text">): string[] {
  return [`alter table snapshots add column name ${text}`, `alter table sandboxes add column snapshot_name ${text}`];
}
