/** The counts of an egress log over time: each line is read once, and a long log does not grow without end. */

import { expect, test } from "vitest";
import type { EgressLine } from "./egress-log.ts";
import { EgressTallies } from "./egress-tally.ts";

const limits = { lines: 4, batch: 2, slots: 4, logs: 2 };

function log(...lines: readonly (readonly [at: number, allowed: boolean, count?: number])[]) {
  const all: EgressLine[] = [];
  const read: number[] = [];
  const add = (more: typeof lines) => {
    for (const [at, allowed, count = 1] of more) {
      const bytes = { bytesIn: 0, bytesOut: 0, ended: 0 };
      all.push({ id: all.length + 1, at, allowed, count, protocol: "tcp", ...bytes });
    }
  };
  add(lines);
  return {
    all,
    add,
    /** positions after which it was read */
    read,
    async lines({ after, limit }: { after: number; limit: number }) {
      read.push(after);
      return { lines: all.slice(after, after + limit), more: all.length > after + limit };
    },
  };
}

const parts = { from: 0, step: 10_000, count: 3 };

test("connections are counted by part and verdict, and those outside of the time are left out", async () => {
  const journal = log([1000, true, 2], [1500, false], [25_000, false, 3], [31_000, true]);
  // The last one of no connection says how many bytes those before it had.
  journal.add([[2000, true, 0]]);
  const tally = await new EgressTallies().of("one", journal, parts);
  expect(tally).toEqual({
    parts: [
      { part: 0, allowed: 2, refused: 1 },
      { part: 2, allowed: 0, refused: 3 },
    ],
    isWhole: true,
  });
});

test("a request reads only new lines, and at most so many", async () => {
  const tallies = new EgressTallies(limits);
  const journal = log(...Array.from({ length: 6 }, (_, at) => [at * 10_000, true] as const));
  const span = { ...parts, count: 6 };
  expect(await tallies.of("one", journal, span)).toMatchObject({ isWhole: false, parts: { length: 4 } });
  expect(await tallies.of("one", journal, span)).toMatchObject({ isWhole: true });
  await tallies.of("one", journal, span);
  expect(journal.read).toEqual([0, 2, 4, 6]);
});

test("requests at the same time count each line once", async () => {
  const tallies = new EgressTallies(limits);
  const journal = log([0, true], [1, true], [2, false]);
  const all = await Promise.all([1, 2, 3].map(() => tallies.of("one", journal, parts)));
  for (const { parts } of all) expect(parts).toEqual([{ part: 0, allowed: 2, refused: 1 }]);
});

test("a log over a long time is kept less precisely, and no connection is lost", async () => {
  const tallies = new EgressTallies({ ...limits, lines: 1000 });
  const journal = log(...Array.from({ length: 64 }, (_, at) => [at * 1000, at % 2 === 0] as const));
  const { parts: found } = await tallies.of("one", journal, { from: 0, step: 32_000, count: 2 });
  expect(found).toEqual([
    { part: 0, allowed: 16, refused: 16 },
    { part: 1, allowed: 16, refused: 16 },
  ]);
});

test("lines that the log has lost are said to be missing", async () => {
  const tallies = new EgressTallies(limits);
  const journal = log([0, true]);
  journal.all.unshift({ id: 1, at: 0, forgotten: 7 });
  expect(await tallies.of("one", journal, parts)).toMatchObject({ isWhole: false, parts: [{ allowed: 1 }] });
});

test("of many logs the counts of those asked for last are kept", async () => {
  const tallies = new EgressTallies(limits);
  const journal = log([0, true]);
  for (const id of ["one", "two", "one", "three", "one", "two"]) await tallies.of(id, journal, parts);
  // "two" was forgotten and is read from its beginning again.
  expect(journal.read).toEqual([0, 0, 1, 0, 1, 0]);
});
