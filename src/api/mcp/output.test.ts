/** A command's output up to a cap: nothing is lost or cut between two answers. */

import { expect, test } from "vitest";
import { chunks, streamOf } from "../../../test/harness/fake-core.ts";
import { outputPart, unfinished } from "./output.ts";

const two = () => streamOf(chunks(["stdout", "héllo"], ["stderr", "wörld"], ["pty", "!"]));

test("output that fits is complete, with each stream by itself", async () => {
  expect(await outputPart(two(), { from: 0, cap: 100, ended: true })).toEqual({
    stdout: "héllo!",
    stderr: "wörld",
    next_offset: 13,
    has_more: false,
    dropped_bytes: 0,
  });
});

test("has_more is right when the cap is reached exactly", async () => {
  expect(await outputPart(two(), { from: 0, cap: 13, ended: true })).toMatchObject({
    has_more: false,
    next_offset: 13,
  });
  expect(await outputPart(two(), { from: 0, cap: 12, ended: true })).toMatchObject({ has_more: true, next_offset: 12 });
});

test("a cap within a character leaves the whole character to the next part", async () => {
  expect(await outputPart(two(), { from: 0, cap: 2, ended: true })).toMatchObject({ stdout: "h", next_offset: 1 });
  expect(await outputPart(two(), { from: 0, cap: 8, ended: true })).toMatchObject({ stderr: "w", next_offset: 7 });
});

test("an incomplete last character is held back while the command runs, and returned after its end", async () => {
  const half = () => streamOf(chunks(["stdout", Buffer.from([0x61, 0xc3])]));
  expect(await outputPart(half(), { from: 0, cap: 100, ended: false })).toMatchObject({ stdout: "a", next_offset: 1 });
  expect(await outputPart(half(), { from: 0, cap: 100, ended: true })).toMatchObject({
    stdout: "a\ufffd",
    next_offset: 2,
  });
});

test("empty output does not move the offset, and dropped bytes are counted", async () => {
  expect(await outputPart(streamOf([]), { from: 7, cap: 10, ended: false })).toMatchObject({
    next_offset: 7,
    stdout: "",
  });
  const late = { offset: 50, stream: "stdout" as const, data: Buffer.from("x"), dropped: 43 };
  expect(await outputPart(streamOf([late]), { from: 7, cap: 10, ended: true })).toMatchObject({
    next_offset: 51,
    dropped_bytes: 43,
  });
});

test.each([
  ["", 0],
  ["61", 0],
  ["c3a9", 0],
  ["c3", 1],
  ["e282", 2],
  ["f09f98", 3],
  ["f09f9880", 0],
  ["80808080", 0],
])("the unfinished end of %s is %i bytes", (hex, length) => {
  expect(unfinished(Buffer.from(hex, "hex"))).toBe(length);
});
