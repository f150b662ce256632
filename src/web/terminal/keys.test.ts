/** Keys with Ctrl, also those of a phone, which has no such key. */

import { expect, test } from "vitest";
import { isCopying, withControl } from "./keys.ts";

test("a letter with Ctrl is its control character", () => {
  expect(["c", "C", "z", "[", "@", " ", "?"].map(withControl)).toEqual([
    "\u0003",
    "\u0003",
    "\u001a",
    "\u001b",
    "\0",
    "\0",
    "\u007f",
  ]);
  expect(["1", "ü", "ab", "\r", "\u001b[A"].map(withControl)).toEqual(["1", "ü", "ab", "\r", "\u001b[A"]);
});

test("Ctrl-C alone does not copy", () => {
  const key = { ctrlKey: true, shiftKey: true, code: "KeyC" };
  expect([isCopying(key), isCopying({ ...key, shiftKey: false }), isCopying({ ...key, ctrlKey: false })]).toEqual([
    true,
    false,
    false,
  ]);
  expect(isCopying({ ctrlKey: true, shiftKey: false, code: "Insert" })).toBe(true);
});
