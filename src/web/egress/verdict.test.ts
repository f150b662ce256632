/** What lines of an egress log say. */

import { expect, test } from "vitest";
import { isAllowable, sumOf, verdictOf } from "./verdict.ts";

const decision = { id: 1, at: 1, count: 1, ended: 0 };

test("a lookup that failed, the end of a connection and missing lines do not count as allowed", () => {
  const lines = [
    { ...decision, allowed: true },
    { ...decision, allowed: true, failure: "no such name" },
    { ...decision, allowed: false, reason: "the policy is deny-all" },
    { ...decision, allowed: true, count: 0, ended: 1 },
    { id: 2, at: 1, dropped: 7 },
    { id: 3, at: 1, forgotten: 7 },
  ];
  expect(lines.map(verdictOf)).toEqual(["allowed", "failed", "refused", "closed", "unseen", "unseen"]);
});

test("only what a policy lacks can be allowed, so not a private address", () => {
  const refused = { ...decision, allowed: false };
  expect(isAllowable({ ...refused, missing: { allow: ["web.test"] } })).toBe(true);
  expect(isAllowable({ ...refused, cause: { kind: "special-address" } })).toBe(false);
  expect(isAllowable({ ...decision, allowed: true })).toBe(false);
});

test("bytes of several hosts add up", () => {
  expect(
    sumOf([
      { bytesIn: 1, bytesOut: 2 },
      { bytesIn: 10, bytesOut: 20 },
    ]),
  ).toEqual({ bytesIn: 11, bytesOut: 22 });
});
