/** Tests of which names and addresses a policy matches, and which of its parts are secret. */

import { describe, expect, test } from "vitest";
import {
  allowsNothing,
  type CustomPolicy,
  compilePolicy,
  hasRules,
  hostName,
  openPolicy,
  sealPolicy,
} from "./network-policy.ts";

describe("domains", () => {
  test.each([
    ["example.com", "example.com", true],
    ["example.com", "www.example.com", false],
    ["*.example.com", "example.com", false],
    ["*.example.com", "a.example.com", true],
    ["*.example.com", "a.b.c.example.com", true],
    ["*.example.com", "aexample.com", false],
    ["*.example.com", "example.com.evil.com", false],
    ["www.*.com", "www.a.com", true],
    ["www.*.com", "www.a.b.com", false],
    ["www.*.com", "www.com", false],
    ["*.*.com", "a.b.com", true],
    ["*.*.com", "x.a.b.com", true],
    ["*.*.com", "a.com", false],
    ["www.*", "www.com", true],
    ["www.*", "www.a.com", false],
    ["*", "anything", true],
    ["*", "a.b.c.d", true],
    ["*.com", "a.com", true],
  ])("%s and %s: %s", (domain, name, expected) => {
    expect(compilePolicy(policyOf({ domains: [{ domain, rules: [] }] })).name(name) !== undefined).toBe(expected);
  });

  test("the closest domain is returned, and its rules come first", () => {
    const rule = (url: string) => ({ action: { kind: "forward" as const, url } });
    const matcher = compilePolicy(
      policyOf({
        domains: [
          { domain: "*", rules: [rule("any")] },
          { domain: "*.example.com", rules: [rule("below")] },
          { domain: "api.example.com", rules: [rule("exact")] },
          { domain: "*.api.example.com", rules: [rule("deeper")] },
        ],
      }),
    );
    expect(matcher.name("api.example.com")).toEqual({
      domain: "api.example.com",
      rules: [rule("exact"), rule("below"), rule("any")],
    });
    expect(matcher.name("x.api.example.com")?.domain).toBe("*.api.example.com");
  });
});

test("a denied subnet beats an allowed one, and the closest of those counts", () => {
  const matcher = compilePolicy(policyOf({ allowedCidrs: ["0.0.0.0/0", "10.0.0.0/8"], deniedCidrs: ["10.1.0.0/16"] }));
  expect(matcher.address("10.1.2.3")).toMatchObject({ allowed: false, cidr: { text: "10.1.0.0/16" } });
  expect(matcher.address("10.2.2.3")).toMatchObject({ allowed: true, cidr: { text: "10.0.0.0/8" } });
  expect(matcher.address("8.8.8.8")).toMatchObject({ allowed: true, cidr: { text: "0.0.0.0/0" } });
  expect(matcher.address("2606::1")).toBeUndefined();
});

test("an unreadable subnet makes the whole policy an error rather than wider", () => {
  expect(() => compilePolicy(policyOf({ deniedCidrs: ["10.0.0.0/99"] }))).toThrow(
    'Cannot use the subnet "10.0.0.0/99"',
  );
});

test("names are open only under a policy of subnets alone", () => {
  expect(compilePolicy(policyOf({ allowedCidrs: ["10.0.0.0/8"] })).openNames).toBe(true);
  expect(compilePolicy(policyOf({ domains: [{ domain: "a.test", rules: [] }] })).openNames).toBe(false);
});

test("an empty policy, and one that only denies, allow nothing", () => {
  expect(allowsNothing(policyOf({}))).toBe(true);
  expect(allowsNothing(policyOf({ deniedCidrs: ["10.0.0.0/8"] }))).toBe(true);
  expect(allowsNothing({ mode: "deny-all" })).toBe(true);
  expect(allowsNothing({ mode: "allow-all" })).toBe(false);
  expect(allowsNothing(policyOf({ allowedCidrs: ["10.0.0.0/8"] }))).toBe(false);
});

test("header values are sealed, and opened again", () => {
  const rules = [{ action: { kind: "set-headers" as const, headers: { authorization: "secret" } } }];
  const policy = policyOf({ domains: [{ domain: "a.test", rules }] });
  const sealed = sealPolicy(policy, (text) => text.toUpperCase());
  expect(JSON.stringify(sealed)).not.toContain("secret");
  expect(openPolicy(sealed, (text) => text.toLowerCase())).toEqual(policy);
  expect(hasRules(policy)).toBe(true);
});

test.each([
  ["WWW.Example.COM.", "www.example.com"],
  ["_a.b-c", "_a.b-c"],
  ["", undefined],
  [".", undefined],
  ["a..b", undefined],
  ["a b", undefined],
  ["ä.test", undefined],
  ["a\0b", undefined],
  ["*.a", undefined],
  [`${"a".repeat(64)}.test`, undefined],
  [`${"a.".repeat(127)}ab`, undefined],
])("the host %j is %j", (text, name) => expect(hostName(text)).toBe(name));

function policyOf(changes: Partial<CustomPolicy>): CustomPolicy {
  return { mode: "custom", domains: [], allowedCidrs: [], deniedCidrs: [], ...changes };
}
