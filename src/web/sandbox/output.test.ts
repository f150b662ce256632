/** Output of programs: what a page shows of it, and how much of it. */

import { expect, test } from "vitest";
import { KeptOutput, plainText } from "./output.ts";

test("sequences for terminals are left out, and other control characters are escapes", () => {
  expect(plainText("\u001b[31mred\u001b[0m \u001b]0;title\u0007x\r\n\u0007\u202e")).toBe("red x\n\\u{7}\\u{202e}");
});

test("pieces of one stream are joined, and the newest characters are kept", () => {
  const kept = new KeptOutput(100_000);
  kept.add("stdout", "a");
  kept.add("stdout", "b");
  kept.add("stderr", "c");
  kept.add("stdout", "");
  expect(kept.pieces()).toEqual([
    { stream: "stdout", text: "ab" },
    { stream: "stderr", text: "c" },
  ]);
  for (let n = 0; n < 10_000; n++) kept.add("stdout", `${String(n).padStart(99, "0")}\n`);
  const text = kept.pieces().map((piece) => piece.text);
  expect(text.join("").length).toBeLessThanOrEqual(100_000);
  expect(text.join("").endsWith("9999\n")).toBe(true);
  expect(text.length).toBeLessThan(10);
});
