/** What snapshots are called. */

import type { Words } from "./migration.ts";

export function snapshotNames({ text }: Words): string[] {
  return [`alter table snapshots add column name ${text}`, `alter table sandboxes add column snapshot_name ${text}`];
}
