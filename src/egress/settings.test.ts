/** What the egress process makes of its environment, and how long it believes what the host said. */

import { expect, test } from "vitest";
import { settingsFrom } from "./settings.ts";

test("lists are separated by commas, and blanks do not count", () => {
  const settings = settingsFrom(
    { SANDKEEP_EGRESS_ALLOW: " 10.0.0.0/8, ,fd00::/8", SANDKEEP_DNS: "1.1.1.1,[::1]:5353" },
    () => 0,
  );
  expect(settings.allow).toEqual(["10.0.0.0/8", "fd00::/8"]);
  expect(settings.resolvers()).toEqual([
    { address: "1.1.1.1", port: 53 },
    { address: "::1", port: 5353 },
  ]);
});

test("nothing set means the host's resolvers and no exception", () => {
  const settings = settingsFrom({}, () => 0);
  expect(settings.allow).toEqual([]);
  expect(settings.resolvers().every(({ port }) => port > 0)).toBe(true);
});

test("a resolver that is no address is refused at once", () => {
  expect(() => settingsFrom({ SANDKEEP_DNS: "dns.test" }, () => 0)).toThrow('Cannot use the resolver "dns.test"');
});

test("the host's addresses are read again after a second", () => {
  let now = 0;
  const { hostAddresses } = settingsFrom({}, () => now);
  const first = hostAddresses();
  expect(first).toContain("127.0.0.1");
  now = 999;
  expect(hostAddresses()).toBe(first);
  now = 1_000;
  expect(hostAddresses()).not.toBe(first);
});
