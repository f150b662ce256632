/** When the last result of a function is used again. */

import { expect, test } from "vitest";
import { keepingLastResult } from "./last-result.ts";

test("a text is computed again only after another one", () => {
  const computed: string[] = [];
  const length = keepingLastResult((text) => computed.push(text) && text.length);
  expect(["a", "a", "bb", "a"].map(length)).toEqual([1, 1, 2, 1]);
  expect(computed).toEqual(["a", "bb", "a"]);
});
