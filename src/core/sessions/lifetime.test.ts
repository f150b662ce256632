/** Tests of when a session expires, by the way its time is counted. */

import { expect, test } from "vitest";
import { expiryOf } from "./lifetime.ts";

const session = { timeout: 1000, requestedAt: 0, startedAt: 10 };

test("a session's time counts from its start, whenever it is used", () => {
  expect(expiryOf(session, 500, 5000)).toBe(1010);
});

test("an idle session's time begins again with each use, up to the longest time that any may run", () => {
  expect(expiryOf({ ...session, lifetime: "idle" }, 500, 5000)).toBe(1500);
  expect(expiryOf({ ...session, lifetime: "idle" }, 4500, 5000)).toBe(5010);
});

test("an unlimited session never expires", () => {
  expect(expiryOf({ ...session, lifetime: "unlimited" }, 500, 5000)).toBeUndefined();
});
