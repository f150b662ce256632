/** When a session's time is over, by the way it is counted. */

import { expect, test } from "vitest";
import { expiryOf } from "./lifetime.ts";

const session = { timeout: 1000, requestedAt: 0, startedAt: 10 };

test("a session's time is counted from its start, whenever it is used", () => {
  expect(expiryOf(session, 500, 5000)).toBe(1010);
});

test("an idle one's time begins anew with each use, up to the longest that any may run", () => {
  expect(expiryOf({ ...session, lifetime: "idle" }, 500, 5000)).toBe(1500);
  expect(expiryOf({ ...session, lifetime: "idle" }, 4500, 5000)).toBe(5010);
});

test("an unlimited one's time is never over", () => {
  expect(expiryOf({ ...session, lifetime: "unlimited" }, 500, 5000)).toBeUndefined();
});
