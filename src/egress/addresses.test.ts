/** What is out of bounds for a sandbox, in every spelling of an address. */

import { expect, test } from "vitest";
import { parseCidr } from "../core/cidr.ts";
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
  expect(rules.forbidden(address)).toBe(what);
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
  expect(changing.forbidden("1.2.3.4")).toBe("the host's own");
});

test.each(["10.0.0.0/33", "10.0.0.0/x", "fd00::/129", "nowhere/8", "10.0.0.0/-1"])(
  "the range %s is refused",
  (range) => {
    expect(() => addressRules({ allow: [range], hostAddresses: () => [] })).toThrow(
      `Cannot use the address range "${range}"`,
    );
  },
);

test("a policy opens what it names: private ranges by a range, the host's own and link-local one by one", () => {
  const named = (address: string, cidr: string) => rules.forbidden(address, parseCidr(cidr));
  expect(named("10.1.2.3", "10.1.0.0/16")).toBeUndefined();
  expect(named("10.1.2.3", "10.0.0.0/8")).toBeUndefined();
  expect(named("10.1.2.3", "10.0.0.0/7")).toBe("private");
  expect(named("10.1.2.3", "0.0.0.0/0")).toBe("private");
  expect(named("fd00:ec2::254", "fd00::/8")).toBeUndefined();
  expect(named("fd00:ec2::254", "::/0")).toBe("private");
  expect(named("93.184.217.2", "93.184.217.0/24")).toBe("the host's own");
  expect(named("93.184.217.2", "93.184.217.2/32")).toBeUndefined();
  expect(named("2606:2800:221::2", "2606:2800:221::2/128")).toBeUndefined();
  expect(named("169.254.169.254", "169.254.0.0/16")).toBe("link-local");
  expect(named("169.254.169.254", "169.254.169.254/32")).toBeUndefined();
  expect(named("127.0.0.2", "127.0.0.2/32")).toBe("loopback");
  expect(named("127.0.0.1", "127.0.0.1/32")).toBe("loopback");
  expect(named("198.18.0.1", "198.18.0.1/32")).toBe("for benchmarks and our own resolver");
  expect(named("224.0.0.1", "224.0.0.1/32")).toBe("multicast");
});

test("a host within a private range is not opened by that range, however its address is written", () => {
  const inside = addressRules({ allow: [], hostAddresses: () => ["10.1.2.3", "fd12::1"] });
  const range = parseCidr("10.0.0.0/8");
  for (const address of ["10.1.2.3", "::ffff:10.1.2.3", "::ffff:a01:203"]) {
    expect(inside.forbidden(address, range)).toBe("the host's own");
  }
  expect(inside.forbidden("fd12:0::1", parseCidr("fd12::/16"))).toBe("the host's own");
  expect(inside.forbidden("::ffff:10.1.2.4", range)).toBeUndefined();
});

test("what the operator denies stays out of reach, whoever names it", () => {
  const strict = addressRules({
    allow: ["10.0.0.0/8"],
    deny: ["10.1.0.0/16", "1.1.1.0/24"],
    hostAddresses: () => host,
  });
  const why = "denied to all sandboxes of this host";
  expect(strict.forbidden("10.1.2.3", parseCidr("10.1.2.3/32"))).toBe(why);
  expect(strict.forbidden("10.2.2.3")).toBeUndefined();
  expect(strict.forbidden("1.1.1.1")).toBe(why);
  expect(strict.forbidden("64:ff9b::101:101")).toBe(why);
});
