/** Numbers, times and foreign text as people read them. */

import { expect, test } from "vitest";
import { plainText } from "./sandbox/output.ts";
import { counted, line, memory, size, span, took, visible } from "./text.ts";

test("control and direction characters are shown as escapes", () => {
  expect(visible("a\u202eb\u0007c\u200d")).toBe("a\\u{202e}b\\u{7}c\\u{200d}");
  expect(visible("naïve 日本 😀")).toBe("naïve 日本 😀");
});

test("output has no sequences for terminals, and keeps its lines", () => {
  expect(plainText("\u001b[31mred\u001b[0m\r\n\u001b]0;title\u0007\tx\u202e\u0000")).toBe("red\n\tx\\u{202e}\\u{0}");
});

test("a noun has the number of its count", () => {
  expect([0, 1, 2].map((count) => counted(count, "sandbox was", "sandboxes were"))).toEqual([
    ...["0 sandboxes were", "1 sandbox was", "2 sandboxes were"],
  ]);
  expect([1, 2].map((count) => counted(count, "session"))).toEqual(["1 session", "2 sessions"]);
});

test("times, sizes and commands are short", () => {
  expect([0, 59_999, 60_000, 2 * 3_600_000 + 5 * 60_000, 49 * 3_600_000].map(span)).toEqual([
    "0s",
    "59s",
    "1m",
    "2h 5m",
    "2d 1h",
  ]);
  expect([12, 4100, 90_000].map(took)).toEqual(["12 ms", "4.1 s", "1m"]);
  expect([0, 999, 1500, 123_456_789].map(size)).toEqual(["0 B", "999 B", "1.5 kB", "123 MB"]);
  expect([512, 4096, 1536].map(memory)).toEqual(["512 MiB", "4 GiB", "1.5 GiB"]);
  expect(line("sh", ["-c", "it's a"])).toBe("sh -c 'it'\\''s a'");
});
