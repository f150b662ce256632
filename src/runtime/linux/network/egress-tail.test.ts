/** Tests of reading a log backwards: over both files, long lines, a line that is being written, and rotation. */

import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempDir } from "../../../../test/harness/harness.ts";
import { type EgressLogLine, writeEgressLine } from "../../../protocols/egress-log.ts";
import { logChangedAt, newestLines } from "./egress-tail.ts";

const all = { limit: 10_000, refused: false, isWanted: () => true };

function line(id: number, { allowed = true, path = "" } = {}): EgressLogLine {
  return { id, at: id, protocol: "http", path, allowed, count: 1, ended: 0, bytesIn: 0, bytesOut: 0 };
}

async function folderWith(older: EgressLogLine[], newer: EgressLogLine[], rest = "") {
  const folder = await tempDir();
  await writeFile(join(folder, "egress.1.jsonl"), older.map(writeEgressLine).join(""));
  await writeFile(join(folder, "egress.jsonl"), newer.map(writeEgressLine).join("") + rest);
  return folder;
}

test("lines come newest first, from the current file and then from the older one", async () => {
  const numbers = Array.from({ length: 3000 }, (_, i) => i + 1);
  const lines = numbers.map((id) => line(id, { path: `/é${"x".repeat(id % 97)}` }));
  const folder = await folderWith(lines.slice(0, 1000), lines.slice(1000));
  expect((await newestLines(folder, all)).map(({ id }) => id)).toEqual(numbers.toReversed());
  expect((await newestLines(folder, { ...all, limit: 2 })).map(({ id }) => id)).toEqual([3000, 2999]);
  const isWanted = ({ id }: EgressLogLine) => id < 5;
  expect((await newestLines(folder, { ...all, isWanted })).map(({ id }) => id)).toEqual([4, 3, 2, 1]);
});

test("refused ones are found among others, also if an allowed one says it in its path", async () => {
  const path = '"allowed":false';
  const folder = await folderWith([line(1, { allowed: false })], [line(2, { path }), line(3)]);
  expect((await newestLines(folder, { ...all, refused: true })).map(({ id }) => id)).toEqual([1]);
});

test("a line that is being written and lines of a rotated file are read once or not at all", async () => {
  const folder = await folderWith([], [line(1), line(2)], '{"id":3,"at"');
  expect((await newestLines(folder, all)).map(({ id }) => id)).toEqual([2, 1]);
  const wanted = { ...all, limit: 3 };
  await rename(join(folder, "egress.jsonl"), join(folder, "egress.1.jsonl"));
  expect((await newestLines(folder, wanted)).map(({ id }) => id)).toEqual([2, 1]);
  expect(await logChangedAt(folder)).toBeGreaterThan(0);
});

test("a machine without connections has no lines and no time", async () => {
  const folder = await folderWith([], []);
  expect([await newestLines(folder, all), await logChangedAt(folder)]).toEqual([[], undefined]);
});
