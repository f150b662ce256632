/** Random bytes from a pool: no piece is handed out twice. */

import { expect, test } from "vitest";
import { fewRandomBytes, randomText } from "./random-bytes.ts";

test("pieces have their length and never repeat, also when the pool is used up", () => {
  const pieces = Array.from({ length: 3000 }, () => fewRandomBytes(16).toString("hex"));
  expect(new Set(pieces).size).toBe(3000);
  expect(pieces.every((piece) => piece.length === 32)).toBe(true);
  expect(fewRandomBytes(10_000)).toHaveLength(10_000);
  expect(fewRandomBytes(0)).toHaveLength(0);
});

test("a caller that changes its piece changes no other", () => {
  const first = fewRandomBytes(8);
  const second = fewRandomBytes(8);
  const before = second.toString("hex");
  first.fill(7);
  expect(second.toString("hex")).toBe(before);
});

test("texts have their length and letters, and never repeat, also when the pool is used up", () => {
  const texts = Array.from({ length: 3000 }, () => randomText(12));
  expect(new Set(texts).size).toBe(3000);
  expect(texts.every((text) => /^[\w-]{12}$/.test(text))).toBe(true);
});
