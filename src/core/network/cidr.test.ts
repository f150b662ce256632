/** Tests of addresses and ranges in each of their spellings. */

import { expect, test } from "vitest";
import { bytesOf, contains, covers, parseCidr } from "./cidr.ts";

test.each([
  ["10.0.0.0/8", "10.255.0.1", true],
  ["10.0.0.0/8", "11.0.0.1", false],
  ["93.184.216.34/32", "93.184.216.34", true],
  ["93.184.216.34", "93.184.216.35", false],
  ["93.184.216.32/30", "93.184.216.35", true],
  ["93.184.216.32/30", "93.184.216.36", false],
  ["0.0.0.0/0", "1.2.3.4", true],
  ["0.0.0.0/0", "2606::1", false],
  ["::/0", "2606::1", true],
  ["::/0", "1.2.3.4", false],
  ["2606:2800::/31", "2606:2801::5", true],
  ["2606:2800::/32", "2606:2801::5", false],
  ["10.0.0.0/8", "::ffff:10.1.1.1", true],
  ["::ffff:10.0.0.0/104", "10.1.1.1", true],
  ["::ffff:10.0.0.0/104", "11.1.1.1", false],
  ["fd00::/8", "fd12:0:0:0:0:0:0:1", true],
])("%s contains %s: %s", (range, address, expected) => {
  const cidr = parseCidr(range);
  expect(cidr && contains(cidr, bytesOf(address) ?? [])).toBe(expected);
});

test.each([
  "",
  "/8",
  "10.0.0.0/33",
  "10.0.0.0/-1",
  "10.0.0.0/8/8",
  "10.0.0/8",
  "010.0.0.0/8",
  "256.1.1.1/8",
  "::/129",
  "1::2::3/64",
  ":::/8",
  "fe80::1%eth0/64",
  "1:2:3:4:5:6:7/64",
  "1:2:3:4:5:6:7:8:9/64",
  "::1.2.3/96",
  "host/8",
  "10.0.0.0/ 8",
  "10.0.0.0/8e0",
  "12345::/16",
])("%j is not a range", (text) => expect(parseCidr(text)).toBeUndefined());

test("a range covers the ranges within it", () => {
  const [all, private_, one] = ["0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16"].map((text) => parseCidr(text));
  if (!all || !private_ || !one) throw new Error("not ranges");
  expect([covers(all, one), covers(private_, one), covers(one, private_), covers(private_, all)]).toEqual([
    true,
    true,
    false,
    false,
  ]);
});

test("every spelling of an IPv6 address has the same bytes", () => {
  const bytes = [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4];
  for (const text of ["2001:db8::102:304", "2001:db8::1.2.3.4", "2001:0DB8:0:0:0:0:0102:0304"]) {
    expect(bytesOf(text)).toEqual(bytes);
  }
  expect(bytesOf("::")).toEqual(Array.from({ length: 16 }, () => 0));
  expect(bytesOf("1::")?.[1]).toBe(1);
});
