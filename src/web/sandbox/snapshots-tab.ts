/** The snapshots of one sandbox, of the chosen time. */

import { html } from "../html.ts";
import { SnapshotTable } from "../pages/snapshots.ts";
import { chosenStretch } from "../tape/tape.ts";
import type { TabProps } from "./sandbox-view.ts";

export function SnapshotsTab({ value: { name, currentSnapshotId } }: TabProps) {
  return html`<${SnapshotTable} sandbox=${name} current=${currentSnapshotId} stretch=${chosenStretch()} />`;
}
