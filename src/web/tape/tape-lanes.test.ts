/** The shapes of a tape: commands one by one while they are few, and otherwise buckets that are joined. */

import { expect, test } from "vitest";
import type { Command, Tape } from "../data/history.ts";
import { commandBars, connectionBars, processorPoints } from "./tape-lanes.ts";

function tapeOf(...parts: { at: number; running?: number; failed?: number; allowed?: number; cpu?: number }[]): Tape {
  const none = { sessions: false, snapshots: false, egress: false };
  return {
    ...{ from: 0, to: 100, step: 10, sessions: [], snapshots: [], truncated: none },
    buckets: parts.map(({ at, running = 0, failed = 0, allowed = 0, cpu }) => ({
      at,
      commands: { started: 0, failed, running },
      egress: { allowed, refused: 0 },
      snapshots: 0,
      processors: cpu ?? null,
    })),
  };
}

const command = (id: string, startedAt: number, endedAt: number | null, exitCode: number | null) =>
  ({ id, startedAt, endedAt, exitCode }) as Command;

test("each command is a bar; one that runs lasts to the end of the tape", () => {
  const commands = [command("a", 5, 20, 0), command("b", 30, null, null), command("c", 1, 2, 7)];
  const bars = commandBars(tapeOf(), commands, true);
  expect(bars.map(({ from, to, kind, command }) => [from, to, kind, command?.id])).toEqual([
    [5, 20, "done", "a"],
    [30, 100, "going", "b"],
    [1, 2, "denied", "c"],
  ]);
});

test("of more commands than are listed, neighbouring buckets are one bar, and failures stand out", () => {
  const tape = tapeOf(
    { at: 0, running: 2 },
    { at: 10, running: 2 },
    { at: 20, running: 1, failed: 1 },
    { at: 50, running: 9 },
  );
  expect(commandBars(tape, [], false)).toEqual([
    { from: 0, to: 20, kind: "done" },
    { from: 20, to: 30, kind: "denied" },
    { from: 50, to: 60, kind: "done" },
  ]);
  const many = Array.from({ length: 601 }, (_, at) => command(`c${at}`, at, at + 1, 0));
  expect(commandBars(tape, many, true)).toHaveLength(3);
});

test("connections are bars of buckets", () => {
  const { allowed, refused } = connectionBars(tapeOf({ at: 0, allowed: 1 }, { at: 10 }, { at: 20, allowed: 4 }));
  expect([allowed.map(({ from }) => from), refused]).toEqual([[0, 20], []]);
});

test("processors begin with the session, and stay inside it", () => {
  const tape = tapeOf({ at: 0, cpu: 9 }, { at: 20, cpu: 1 }, { at: 30, cpu: 2 }, { at: 40 }, { at: 60, cpu: 9 });
  expect(processorPoints(tape, { from: 22, to: 34 })).toEqual([
    { at: 22, value: 1 },
    { at: 25, value: 1 },
    { at: 34, value: 2 },
  ]);
});
