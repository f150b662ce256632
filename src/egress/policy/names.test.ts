/** What the egress process remembers of names. */

import { expect, test } from "vitest";
import { newNames } from "./names.ts";

test("a name led to an address for as long as it was told, at least for minutes and at most for a day", () => {
  let now = 0;
  const names = newNames(() => now);
  names.remember("short.test", "93.184.216.34", 1);
  names.remember("long.test", "2606:2800::1", 10 ** 9);
  now = 299_000;
  expect(names.has("short.test", "93.184.216.34")).toBe(true);
  expect(names.has("short.test", "::ffff:93.184.216.34")).toBe(true);
  expect(names.has("short.test", "93.184.216.35")).toBe(false);
  expect(names.has("other.test", "93.184.216.34")).toBe(false);
  now = 301_000;
  expect(names.has("short.test", "93.184.216.34")).toBe(false);
  expect(names.nameOf("93.184.216.34")).toBeUndefined();
  expect(names.has("long.test", "2606:2800:0::1")).toBe(true);
  now = 86_401_000;
  expect(names.has("long.test", "2606:2800::1")).toBe(false);
});

test("all names of an address are known", () => {
  let now = 0;
  const names = newNames(() => now);
  names.remember("a.test", "93.184.216.34", 60);
  names.remember("b.test", "93.184.216.34", 3_600);
  names.remember("c.test", "93.184.216.3", 60);
  expect(names.namesOf("::ffff:93.184.216.34")).toEqual(["a.test", "b.test"]);
  now = 301_000;
  expect(names.namesOf("93.184.216.34")).toEqual(["b.test"]);
});

test("the oldest make room", () => {
  const names = newNames(() => 0);
  for (let i = 0; i < 5000; i++) names.remember(`n${i}.test`, `93.${i >> 8}.${i & 255}.1`, 60);
  expect(names.has("n0.test", "93.0.0.1")).toBe(false);
  expect(names.nameOf("93.0.0.1")).toBeUndefined();
  expect(names.has("n4999.test", "93.19.135.1")).toBe(true);
  expect(names.nameOf("93.19.135.1")).toBe("n4999.test");
});
