/** Tests of what a sandbox resumes from after a loss of power or of the disk. */

import { expect, test } from "vitest";
import { sandbox, session } from "../../../test/harness/fake-core.ts";
import type { Context } from "../context.ts";
import type { Sandbox, Session, Snapshot } from "../model/sandbox.ts";
import { settleLostSnapshots, startsWithoutSnapshot } from "./lost-snapshots.ts";

const { currentSnapshotId: _, ...plain } = sandbox;
const uncaptured: Sandbox = { ...plain, persistent: true };
const lost: Session = { ...session, state: "aborted", startedAt: 1, endCause: "host" };
const { startedAt: __, ...unstarted } = session;
const failed: Session = { ...unstarted, state: "failed", endCause: "crash" };

/** whether it starts again, and the notices; a page of the store has one session, newest first */
async function asked(of: Sandbox, sessions: Session[], snapshots: Partial<Snapshot>[] = [], damaged = 0) {
  const said: string[] = [];
  const store = {
    snapshotsOf: async () => snapshots,
    listSessions: async ({ cursor = "0" }) => {
      const at = Number(cursor);
      return { items: sessions.slice(at, at + 1), ...(at + 1 < sessions.length && { next: String(at + 1) }) };
    },
  };
  const runtime = { damaged: () => damaged };
  const context = { store, runtime, notice: (sentence: string) => void said.push(sentence) } as unknown as Context;
  return { begins: await startsWithoutSnapshot(context, of), said };
}

test("a sandbox that was lost with the host before a snapshot starts again from its image, with a notice", async () => {
  const { begins, said } = await asked(uncaptured, [lost]);
  expect(begins).toBe(true);
  expect(said).toEqual([
    `Sandbox "${sandbox.name}" starts again from its image: its files were lost before they were on the disk`,
  ]);
});

test("a sandbox whose files may be on a machine with a damaged record is refused instead", async () => {
  await expect(asked(uncaptured, [lost], [], 1)).rejects.toThrow(
    'Cannot resume sandbox: its files may be those of a machine whose record is damaged. "sandkeep recover" lists such records.',
  );
  expect((await asked(uncaptured, [failed], [], 1)).begins).toBe(true);
});

test("such a sandbox also starts again after failed starts in between", async () => {
  expect((await asked(uncaptured, [failed, failed, lost])).begins).toBe(true);
});

test.each([true, false])("a sandbox that never ran starts from its image (persistent: %s)", async (persistent) => {
  expect(await asked({ ...uncaptured, persistent }, [failed, failed])).toEqual({
    begins: true,
    said: [`Sandbox "${sandbox.name}" starts again from its image: it has never run`],
  });
});

const stopped: Session = { ...lost, state: "stopped", endCause: "asked" };

test.each<[string, Sandbox, Session[], Partial<Snapshot>[]]>([
  ["keeps nothing", { ...uncaptured, persistent: false }, [lost], []],
  ["was stopped", uncaptured, [stopped], []],
  ["was stopped, and then failed to start", uncaptured, [failed, stopped], []],
  ["has a snapshot", { ...uncaptured, currentSnapshotId: "snap_1" }, [lost], [{ id: "snap_1" }]],
  ["never ran, from a snapshot", { ...uncaptured, currentSnapshotId: "snap_1" }, [failed], []],
  ["had snapshots, which were deleted", uncaptured, [lost], [{ id: "snap_1", state: "deleted" }]],
])("a sandbox that %s does not", async (_, of, sessions, snapshots) => {
  expect(await asked(of, sessions, snapshots)).toEqual({ begins: false, said: [] });
});

const older = {
  id: "snap_1",
  runtimeId: "r1",
  sandboxId: sandbox.id,
  sandboxName: "box",
  state: "created",
  createdAt: 0,
};
const newest = { ...older, id: "snap_2", runtimeId: "r2" };

/** settles the suspects of a sandbox that resumes from the newest of its snapshots */
async function settled(snapshots: (typeof older)[], suspects: string[]) {
  const said: string[] = [];
  const changes: unknown[] = [];
  const trusted: string[] = [];
  const store = {
    liveRuntimeSnapshots: async () => snapshots.map(({ runtimeId }) => runtimeId),
    snapshotsOfRuntime: async (id: string) => snapshots.filter(({ runtimeId }) => runtimeId === id),
    snapshotsOf: async () => snapshots.toReversed(),
    getSandbox: async () => ({ ...sandbox, currentSnapshotId: snapshots.at(-1)?.id }),
    updateSnapshot: async (id: string, { state }: { state: string }) => void changes.push([id, state]),
    updateSandbox: async (_: string, { currentSnapshotId }: Sandbox) => void changes.push(currentSnapshotId),
  };
  const runtime = {
    snapshots: {
      suspects: async () => suspects,
      list: async () => snapshots.map(({ runtimeId }) => ({ id: runtimeId })),
      restore: async () => [],
      trust: async (id: string) => void trusted.push(id),
    },
  };
  const notice = (sentence: string) => void said.push(sentence);
  const context = { store, runtime, notice, now: () => 1, events: { publish: () => undefined } } as unknown as Context;
  await settleLostSnapshots(context);
  return { said, changes, trusted };
}

test("a sandbox whose newest snapshot may be incomplete resumes from the one before it, and the log names it", async () => {
  expect(await settled([older, newest], ["r2"])).toEqual({
    changes: [["snap_2", "failed"], "snap_1"],
    said: [
      'The files of snapshot "snap_2" of sandbox "box" are incomplete: it resumes from "snap_1" of 1970-01-01T00:00:00.000Z',
    ],
    trusted: ["r2"],
  });
});

test("an incomplete snapshot without an intact one before it stays, and the log names it", async () => {
  const why = "as they could not be written to the disk, and there is none before it to resume from";
  const { said, changes, trusted } = await settled([older, newest], ["r1", "r2"]);
  expect({ changes, trusted }).toEqual({ changes: [], trusted: ["r1", "r2"] });
  expect(said).toEqual([
    `Snapshot "snap_1" of sandbox "box" may lack its last files, ${why}`,
    `Snapshot "snap_2" of sandbox "box" may lack its last files, ${why}`,
  ]);
});
