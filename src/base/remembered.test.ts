/** A function that remembers its latest results. */

import { expect, test } from "vitest";
import { remembered } from "./remembered.ts";

test("a result is found once for each of the latest texts", () => {
  const asked: string[] = [];
  const length = remembered((text: string) => {
    asked.push(text);
    return text.length;
  });
  expect([length("a"), length("bb"), length("a")]).toEqual([1, 2, 1]);
  expect(asked).toEqual(["a", "bb"]);
  for (let i = 0; i < 1000; i++) length(`other ${i}`);
  expect([length("a"), asked.at(-1)]).toEqual([1, "a"]);
});

test("undefined is remembered too, and long texts are not", () => {
  let asked = 0;
  const find = remembered((_: string) => void asked++, 3);
  for (const text of ["abc", "abc", "abcd", "abcd"]) find(text);
  expect(asked).toBe(3);
});
