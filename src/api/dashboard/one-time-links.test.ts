/** Links that sign in once. */

import { expect, test } from "vitest";
import { OneTimeLinks } from "./one-time-links.ts";

test("a link is valid once and until its time", () => {
  let now = 0;
  const links = new OneTimeLinks(() => now);
  const caller = { teamId: "team_1", keyId: "key_1" };
  const { code } = links.make(caller, 1000);
  expect(links.peek(code)).toBe(caller);
  expect(links.redeem(code)).toBe(caller);
  expect(links.peek(code)).toBeUndefined();
  expect(() => links.redeem(code)).toThrow("used before");
  const late = links.make(caller, 1000);
  now = 1000;
  expect(() => links.redeem(late.code)).toThrow("has expired");
});
