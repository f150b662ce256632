/** A command's output in one answer, and which part is kept when there is too much. */

import { expect, test } from "vitest";
import { chunks, streamOf } from "../../../test/harness/fake-core.ts";
import { outputOf } from "./output.ts";

test("each stream is joined, and a terminal's output belongs to standard output", async () => {
  const output = streamOf(chunks(["stdout", "a"], ["stderr", "b"], ["pty", "c"]));
  expect(await outputOf(output)).toEqual({
    stdout: "ac",
    stderr: "b",
    stdout_truncated: false,
    stderr_truncated: false,
  });
});

test.each([
  [["0123456789"], "6789"],
  [["01234", "56789"], "6789"],
  [["0", "1", "2", "3", "4", "5"], "2345"],
  [["0123"], "0123"],
  // Each character has three bytes, and the output must not begin with half a character.
  [["€€"], "€"],
  [["€", "€"], "€"],
])("of %j the last whole characters within four bytes are kept", async (parts, kept) => {
  const printed = chunks(...parts.map((part): ["stdout", string] => ["stdout", part]));
  const { stdout, stdout_truncated } = await outputOf(streamOf(printed), 4);
  expect({ stdout, stdout_truncated }).toEqual({ stdout: kept, stdout_truncated: kept !== parts.join("") });
});

test("dropped bytes mark both streams as truncated", async () => {
  const [chunk] = chunks(["stdout", "rest"]);
  expect(await outputOf(streamOf(chunk ? [{ ...chunk, dropped: 9 }] : []))).toMatchObject({
    stdout: "rest",
    stdout_truncated: true,
    stderr_truncated: true,
  });
});
