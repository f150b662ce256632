/** Tests of network policies in one line. */

import { expect, test } from "vitest";
import { policyOfText, textOfPolicy } from "./policy-text.ts";

test("a line names domains, ranges and denied ranges, and prints as it was read", () => {
  const text = "registry.npmjs.org, *.github.com, 203.0.113.0/24, 2606:2800::/32, !203.0.113.7/32";
  expect(policyOfText(text)).toEqual({
    mode: "custom",
    domains: ["registry.npmjs.org", "*.github.com"].map((domain) => ({ domain, rules: [] })),
    allowedCidrs: ["203.0.113.0/24", "2606:2800::/32"],
    deniedCidrs: ["203.0.113.7/32"],
  });
  expect(textOfPolicy(policyOfText(text))).toBe(text);
  for (const word of ["allow-all", "deny-all"] as const) {
    expect(policyOfText(` ${word.toUpperCase()} `)).toEqual({ mode: word });
    expect(textOfPolicy({ mode: word })).toBe(word);
  }
});

test.each(["", "a b", "a.test,", "!a.test", "10.0.0.0/99", "a*.test", "http://a.test", "*.*x", "a..b"])(
  "%j is not a policy",
  (text) => {
    expect(() => policyOfText(text)).toThrow(/^Cannot use ".*" in a network policy: it must be/);
  },
);
