/** The journal of a command's output: its file names, the heads of its records, and the info about a command. */

import { expect, test } from "vitest";
import { FrameWriter } from "./guest-frames.ts";
import { infoFile, readCommandInfo, recordAt, segmentFile, segmentStart } from "./output-journal.ts";

const started = new FrameWriter().u32(12).u64(34).u32(1).u64(56).str("root").str("/home").list(["ls", "-l"]);
const exited = (signal: number, flags: number) =>
  new FrameWriter().u32(137).u32(signal).u32(flags).u64(2000).u64(3).u64(4).u64(5).frame(2, 0);
const info = { pid: 12, startedAt: 34, pty: true, user: "root", cwd: "/home", argv: ["ls", "-l"] };
const exit = { code: 137, outOfMemory: false, timedOut: false, cpuTime: 2, peakMemory: 3, outputEnd: 4, exitedAt: 5 };

test("an agent's info about a command is read, with every field and without the optional ones", () => {
  const first = started.frame(1, 0);
  expect(readCommandInfo(first)).toEqual(info);
  expect(readCommandInfo(Buffer.concat([first, exited(0, 0)]))).toEqual({ ...info, exit });
  const all = { ...exit, signal: 9, outOfMemory: true, timedOut: true };
  expect(readCommandInfo(Buffer.concat([first, exited(9, 3)]))).toEqual({ ...info, exit: all });
});

test("incomplete parts, and parts that no agent writes, are ignored", () => {
  const first = started.frame(1, 0);
  expect(readCommandInfo(first.subarray(0, -1))).toBeUndefined();
  expect(readCommandInfo(Buffer.concat([first, exited(0, 0).subarray(0, -1)]))).toEqual(info);
  expect(readCommandInfo(Buffer.concat([first, new FrameWriter().u32(1).frame(2, 0)]))).toEqual(info);
  expect(readCommandInfo(Buffer.concat([first, new FrameWriter().u32(1).frame(99, 0)]))).toEqual(info);
});

test("files are recognized by their names", () => {
  expect(segmentStart("c", segmentFile("c", 0xabc))).toBe(0xabc);
  expect(segmentFile("c", 0xabc)).toBe("c.0000000000000abc");
  for (const name of [infoFile("c"), "d.0000000000000abc", "c.abc", "c.0000000000000ABC"]) {
    expect(segmentStart("c", name)).toBeUndefined();
  }
});

test("the head of a record has its stream and length, and invalid heads are refused", () => {
  const head = (stream: number, size: number) => {
    const bytes = Buffer.alloc(5);
    bytes.writeUInt8(stream, 0);
    bytes.writeUInt32LE(size, 1);
    return recordAt(bytes, 0);
  };
  for (const [index, stream] of ["stdout", "stderr", "pty"].entries()) {
    expect(head(index + 1, 65536)).toEqual({ stream, size: 65536 });
  }
  expect([head(0, 1), head(4, 1), head(1, 65537)]).toEqual([undefined, undefined, undefined]);
});
