/** What a sandbox resumes from that a loss of power has left without any snapshot. */

import { expect, test } from "vitest";
import { sandbox, session } from "../../../test/harness/fake-core.ts";
import type { Context } from "../context.ts";
import type { Sandbox, Session, Snapshot } from "../model/sandbox.ts";
import { beginsAnew } from "./lost-snapshots.ts";

const { currentSnapshotId: _, ...plain } = sandbox;
const uncaptured: Sandbox = { ...plain, persistent: true };
const lost: Session = { ...session, state: "aborted", endCause: "host" };

/** whether it begins anew, and what is said about that */
async function asked(of: Sandbox, last: Session, snapshots: Partial<Snapshot>[] = []) {
  const said: string[] = [];
  const store = { snapshotsOf: async () => snapshots };
  const context = { store, notice: (sentence: string) => void said.push(sentence) } as unknown as Context;
  return { begins: await beginsAnew(context, of, last), said };
}

test("a sandbox that was lost with the host before anything of it was kept begins anew from its image, and that is said", async () => {
  const { begins, said } = await asked(uncaptured, lost);
  expect(begins).toBe(true);
  expect(said).toEqual([
    `Sandbox "${sandbox.name}" begins anew from its image: the host was restarted before its files were on the disk`,
  ]);
});

test.each<[string, Sandbox, Session, Partial<Snapshot>[]]>([
  ["keeps nothing", { ...uncaptured, persistent: false }, lost, []],
  ["was stopped", uncaptured, { ...lost, state: "stopped", endCause: "asked" }, []],
  ["has a snapshot", { ...uncaptured, currentSnapshotId: "snap_1" }, lost, [{ id: "snap_1" }]],
  ["had snapshots, which were deleted", uncaptured, lost, [{ id: "snap_1", state: "deleted" }]],
])("one that %s does not", async (_, of, last, snapshots) => {
  expect(await asked(of, last, snapshots)).toEqual({ begins: false, said: [] });
});
