/** Names in a network policy: the error for an invalid name quotes it. */

import { expect, test } from "vitest";
import { invalidWords } from "../issues.ts";
import { domainName, subnet } from "./network-names.ts";

test.each([
  [
    "https://x.com/",
    /^Invalid request: "https:\/\/x\.com\/" is not a domain: .* without a scheme, a port or a path\.$/,
  ],
  ["a b", /^Invalid request: "a b" is not a domain: /],
  [`${"x".repeat(150)}:1`, /^Invalid request: "x{100}…" is not a domain: /],
])("%s is not a domain", (text, sentence) => {
  expect(invalidWords(domainName.safeParse(text).error?.issues ?? [])).toMatch(sentence);
});

test.each(["10.0.0.300/8", "10.0.0.1", "x.com"])("%s is not a subnet", (text) => {
  const sentence = `Invalid request: "${text}" is not a subnet: a network policy names it in CIDR notation, as 203.0.113.0/24 or 2001:db8::/32.`;
  expect(invalidWords(subnet.safeParse(text).error?.issues ?? [])).toBe(sentence);
});
