/** What is out of bounds for a sandbox, in every spelling of an address. */

import { expect, test } from "vitest";
import { addressRules } from "./addresses.ts";

const host = ["127.0.0.1", "93.184.217.2", "2606:2800:221::2"];
const rules = addressRules({ allow: [], hostAddresses: () => host });

const forbidden: [address: string, what: string][] = [
  ["0.0.0.0", "unspecified"],
  ["0.1.2.3", "unspecified"],
  ["127.0.0.1", "the host's own"],
  ["127.255.255.254", "loopback"],
  ["10.0.0.1", "private"],
  ["172.16.0.1", "private"],
  ["172.31.255.255", "private"],
  ["192.168.1.1", "private"],
  ["100.64.0.1", "shared by carriers"],
  ["100.127.255.255", "shared by carriers"],
  ["169.254.169.254", "link-local"],
  ["168.63.129.16", "a cloud's own"],
  ["::ffff:168.63.129.16", "a cloud's own"],
  ["192.0.0.8", "reserved for protocols"],
  ["192.0.2.1", "for documentation"],
  ["198.51.100.7", "for documentation"],
  ["203.0.113.9", "for documentation"],
  ["198.18.0.1", "for benchmarks and our own resolver"],
  ["198.19.255.255", "for benchmarks and our own resolver"],
  ["224.0.0.1", "multicast"],
  ["240.0.0.1", "reserved"],
  ["255.255.255.255", "reserved"],
  ["93.184.217.2", "the host's own"],
  ["::", "unspecified"],
  ["::1", "loopback"],
  ["fe80::1", "link-local"],
  ["fc00::1", "private"],
  ["fd00:ec2::254", "private"],
  ["fd73:616e:646b::1", "private"],
  ["ff02::1", "multicast"],
  ["2001:db8::1", "for documentation"],
  ["2001::1", "a tunnel"],
  ["2606:2800:221::2", "the host's own"],
  ["2606:2800:0221:0:0:0:0:2", "the host's own"],
  ["::ffff:10.0.0.1", "private"],
  ["::ffff:a00:1", "private"],
  ["::ffff:93.184.217.2", "the host's own"],
  ["::ffff:0:127.0.0.2", "loopback"],
  ["::10.0.0.1", "private"],
  ["64:ff9b::169.254.169.254", "link-local"],
  ["64:ff9b::7f00:2", "loopback"],
  ["64:ff9b:1::1", "a tunnel"],
  ["2002:c0a8:101::1", "private"],
  ["web.test", "not an address"],
  ["10.1", "not an address"],
  ["", "not an address"],
];

test.each(forbidden)("%s is %s", (address, what) => {
  expect(rules.forbidden(address)?.replace(/ \(.*$/, "")).toBe(what);
});

test.each([
  "93.184.216.34",
  "1.1.1.1",
  "172.15.255.255",
  "172.32.0.1",
  "100.63.255.255",
  "100.128.0.1",
  "198.17.255.255",
  "223.255.255.255",
  "2606:2800:220:1::1",
  "::ffff:1.1.1.1",
  "64:ff9b::1.1.1.1",
  "2002:101:101::1",
])("%s may be reached", (address) => {
  expect(rules.forbidden(address)).toBeUndefined();
});

test("what the operator allows may be reached, also inside another address, and nothing beside it", () => {
  const custom = addressRules({ allow: ["10.1.0.0/16", "fd12::/64", "127.0.0.1"], hostAddresses: () => host });
  for (const address of ["10.1.2.3", "fd12::9", "127.0.0.1", "::ffff:10.1.2.3"]) {
    expect(custom.forbidden(address)).toBeUndefined();
  }
  for (const address of ["10.2.0.1", "fd12:0:0:1::9", "127.0.0.2", "::ffff:10.2.0.1"]) {
    expect(custom.forbidden(address)).toBeDefined();
  }
});

test("the host's addresses are asked for anew", () => {
  const own: string[] = [];
  const changing = addressRules({ allow: [], hostAddresses: () => own });
  expect(changing.forbidden("1.2.3.4")).toBeUndefined();
  own.push("1.2.3.4");
  expect(changing.forbidden("1.2.3.4")).toMatch(/^the host's own/);
});

test.each(["10.0.0.0/33", "10.0.0.0/x", "fd00::/129", "nowhere/8", "10.0.0.0/-1"])(
  "the range %s is refused",
  (range) => {
    expect(() => addressRules({ allow: [range], hostAddresses: () => [] })).toThrow(
      `Cannot use the address range "${range}"`,
    );
  },
);

test("what may be another machine says which setting would open it, and what may not does not", () => {
  expect(rules.forbidden("10.1.2.3")).toBe("private (SANDKEEP_EGRESS_ALLOW=10.1.2.3/32 would open it)");
  expect(rules.forbidden("fe80::1")).toBe("link-local (SANDKEEP_EGRESS_ALLOW=fe80::1/128 would open it)");
  expect(rules.forbidden("93.184.217.2")).toContain("SANDKEEP_EGRESS_ALLOW=93.184.217.2/32");
  for (const address of ["127.0.0.2", "198.18.0.1", "224.0.0.1", "0.0.0.0"]) {
    expect(rules.forbidden(address)).not.toContain("SANDKEEP");
  }
});

test("a host within a range that the operator allows is not opened by that range, however its address is written", () => {
  const hostAddresses = () => ["10.1.2.3", "fd12::1"];
  const inside = addressRules({ allow: ["10.0.0.0/8", "fd12::/16"], hostAddresses });
  for (const address of ["10.1.2.3", "::ffff:10.1.2.3", "::ffff:a01:203", "fd12:0::1"]) {
    expect(inside.forbidden(address)).toMatch(/^the host's own/);
  }
  for (const address of ["10.1.2.4", "::ffff:10.1.2.4", "fd12::2"]) expect(inside.forbidden(address)).toBeUndefined();
  const named = addressRules({ allow: ["10.1.2.3/32", "fd12::1"], hostAddresses });
  for (const address of ["10.1.2.3", "::ffff:10.1.2.3", "fd12::1"]) expect(named.forbidden(address)).toBeUndefined();
});

test("what the operator denies stays out of reach, also where it is allowed", () => {
  const strict = addressRules({
    allow: ["10.0.0.0/8"],
    deny: ["10.1.0.0/16", "1.1.1.0/24"],
    hostAddresses: () => host,
  });
  const why = "denied to all sandboxes of this host by SANDKEEP_EGRESS_DENY";
  expect(strict.forbidden("10.1.2.3")).toBe(why);
  expect(strict.forbidden("10.2.2.3")).toBeUndefined();
  expect(strict.forbidden("1.1.1.1")).toBe(why);
  expect(strict.forbidden("64:ff9b::101:101")).toBe(why);
});
