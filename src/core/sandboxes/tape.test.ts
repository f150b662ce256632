/** The tape: numbers for equal parts of a time, of all sessions of a sandbox, with a bounded size. */

import { expect, test } from "vitest";
import type { Owner, Session, Snapshot } from "../model/sandbox.ts";
import type { CommandTally } from "../ports/store.ts";
import type { Sample } from "../sessions/samples.ts";
import type { Booted } from "./sandboxes.ts";
import { Tapes } from "./tape.ts";

const owner = { teamId: "team", projectId: "project" } as Owner;
const nothing: CommandTally = { running: 0, parts: [] };

interface Past {
  sessions?: Partial<Session>[];
  hasMoreSessions?: boolean;
  snapshots?: number[];
  commands?: CommandTally;
  samples?: [at: number, processors: number][];
  isEgressWhole?: boolean;
}

function tapes(past: Past) {
  const { sessions = [{ id: "sbx_1" }], hasMoreSessions, snapshots = [], commands, samples = [] } = past;
  return new Tapes(
    {
      sandboxes: { get: async () => ({ sandbox: { id: "s", name: "demo", createdAt: 1000 } }) as Booted },
      sessions: {
        list: async () => ({
          items: sessions.map((each) => ({ sandboxId: "s", createdAt: 1000, ...each }) as Session),
          ...(hasMoreSessions && { next: "more" }),
        }),
        samples: async () => samples.map(([at, processors]) => ({ at, processors }) as Sample),
      },
      commands: { tally: async () => commands ?? nothing },
      egress: {
        tally: async () => ({ parts: [{ part: 1, allowed: 3, refused: 1 }], isWhole: past.isEgressWhole ?? true }),
      },
      snapshots: { list: async () => ({ items: snapshots.map((createdAt) => ({ createdAt }) as Snapshot) }) },
    },
    () => 2000,
  );
}

const empty = { commands: { started: 0, failed: 0, running: 0 }, egress: { allowed: 0, refused: 0 }, snapshots: 0 };

test("by default it is the whole life of the sandbox; buckets in which nothing happened are left out", async () => {
  const tape = await tapes({
    snapshots: [1999, 1250],
    samples: [
      [1210, 1],
      [1290, 2],
    ],
  }).of(owner, "demo", { buckets: 10 });
  expect(tape).toMatchObject({ from: 1000, to: 2000, step: 100, sessions: [{ id: "sbx_1" }] });
  expect(tape.buckets).toEqual([
    { at: 1100, ...empty, egress: { allowed: 3, refused: 1 } },
    { at: 1200, ...empty, snapshots: 1, processors: 1.5 },
    { at: 1900, ...empty, snapshots: 1 },
  ]);
});

test("a command is in every bucket in which it ran, up to the end of its session", async () => {
  const commands = { running: 1, parts: [{ part: 1, started: 2, ended: 1, failed: 1 }] };
  const sessions = [{ id: "sbx_1", stoppedAt: 1350 }];
  const { buckets } = await tapes({ commands, sessions }).of(owner, "demo", { buckets: 10 });
  expect(buckets.map(({ at, commands: { started, failed, running } }) => [at, started, failed, running])).toEqual([
    [1000, 0, 0, 1],
    [1100, 2, 1, 3],
    [1200, 0, 0, 2],
    [1300, 0, 0, 2],
  ]);
});

test("a time that does not divide evenly has no more buckets than asked for", async () => {
  const { step } = await tapes({}).of(owner, "demo", { from: 1000, to: 2001, buckets: 10 });
  expect(step).toBe(101);
  await expect(tapes({}).of(owner, "demo", { from: 5, to: 5, buckets: 10 })).rejects.toMatchObject({ code: "invalid" });
  // A sandbox of the future, after the clock was set back.
  expect(await tapes({}).of(owner, "demo", { from: 9000, buckets: 10 })).toMatchObject({ from: 9000, to: 9001 });
});

test("it says what it leaves out, and has no session of a deleted sandbox of the same name", async () => {
  const sessions = [{ id: "sbx_2" }, { id: "sbx_1", sandboxId: "other" }];
  const other = await tapes({ sessions, hasMoreSessions: true }).of(owner, "demo", { buckets: 10 });
  expect([other.sessions.map(({ id }) => id), other.truncated.sessions]).toEqual([["sbx_2"], false]);
  const { truncated } = await tapes({ hasMoreSessions: true, isEgressWhole: false }).of(owner, "demo", { buckets: 10 });
  expect(truncated).toEqual({ sessions: true, snapshots: false, egress: true });
});
