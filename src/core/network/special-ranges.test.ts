/** Tests of which addresses are public. */

import { expect, test } from "vitest";
import { isPublic } from "./special-ranges.ts";

test.each(["1.1.1.1", "8.8.8.8", "168.63.129.17", "2606:4700::1111", "::ffff:1.1.1.1"])("%s is public", (address) => {
  expect(isPublic(address)).toBe(true);
});

const others = ["127.0.0.1", "10.0.0.1", "172.31.0.1", "192.168.1.1", "169.254.169.254", "168.63.129.16", "0.0.0.0"];
const six = [
  "::1",
  "::",
  "fe80::1",
  "fd00:ec2::254",
  "::ffff:127.0.0.1",
  "::ffff:a00:1",
  "64:ff9b::a00:1",
  "2002:7f00:1::",
];
test.each([...others, ...six, "no address", ""])('"%s" is not public', (address) => {
  expect(isPublic(address)).toBe(false);
});
