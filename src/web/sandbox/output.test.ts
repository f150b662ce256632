/** Output of programs: what a page shows of it, and how much of it. */

import { expect, test } from "vitest";
import { KeptOutput, plainText } from "./output.ts";

function textOf(kept: KeptOutput): string {
  return kept
    .blocks()
    .flatMap(({ pieces }) => pieces.map(({ text }) => text))
    .join("");
}

test("sequences for terminals are left out, and other control characters are escapes", () => {
  expect(plainText("\u001b[31mred\u001b[0m \u001b]0;title\u0007x\r\n\u0007\u202e")).toBe("red x\n\\u{7}\\u{202e}");
});

test("pieces of one stream are joined, and the newest characters are kept", () => {
  const kept = new KeptOutput(100_000);
  kept.add("stdout", "a");
  kept.add("stdout", "b");
  kept.add("stderr", "c");
  kept.add("stdout", "");
  expect(kept.blocks().map(({ pieces }) => pieces)).toEqual([
    [
      { stream: "stdout", text: "ab" },
      { stream: "stderr", text: "c" },
    ],
  ]);
  for (let n = 0; n < 10_000; n++) kept.add("stdout", `${String(n).padStart(99, "0")}\n`);
  const text = textOf(kept);
  expect(text.length).toBeLessThanOrEqual(100_000);
  expect(text.endsWith("9999\n")).toBe(true);
  expect(kept.blocks().length).toBeLessThan(20);
});

test("a block ends with a line, however the output was cut, and nothing of it is lost", () => {
  const lines = Array.from({ length: 3000 }, (_, n) => `line ${n} ${"x".repeat(n % 50)}\n`).join("");
  const kept = new KeptOutput(1_000_000);
  for (let at = 0; at < lines.length; at += 777) kept.add("stdout", lines.slice(at, at + 777));
  expect(textOf(kept)).toBe(lines);
  const blocks = kept.blocks();
  expect(blocks.length).toBeGreaterThan(5);
  for (const { pieces } of blocks) expect(pieces.at(-1)?.text.endsWith("\n")).toBe(true);
  expect(blocks.reduce((sum, each) => sum + each.lines, 0)).toBe(3000);
  // A line without an end does not grow without a limit, either.
  const long = new KeptOutput(300_000);
  for (let n = 0; n < 100; n++) long.add("stdout", "y".repeat(9000));
  expect(textOf(long).length).toBeLessThanOrEqual(300_000);
  expect(textOf(long).length).toBeGreaterThan(200_000);
});
