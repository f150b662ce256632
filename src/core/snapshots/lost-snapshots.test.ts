/** Tests of what a sandbox without any snapshot resumes from after a power loss. */

import { expect, test } from "vitest";
import { sandbox, session } from "../../../test/harness/fake-core.ts";
import type { Context } from "../context.ts";
import type { Sandbox, Session, Snapshot } from "../model/sandbox.ts";
import { startsWithoutSnapshot } from "./lost-snapshots.ts";

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
