/** Which requests a rule is for. */

import { describe, expect, test } from "vitest";
import type { RequestMatch, RequestRule, RuleAction } from "../../core/network/network-policy.ts";
import { type RequestFacts, ruleFor, TooCostly } from "./matching.ts";

const inject: RuleAction = { kind: "set-headers", headers: {} };
const respond: RuleAction = { kind: "respond", status: 403 };

function matches(match: RequestMatch, request: Partial<RequestFacts>, action: RuleAction = inject): boolean {
  return ruleFor([{ match, action }], { method: "GET", target: "/", headers: [], ...request }) !== undefined;
}

describe("the path", () => {
  test("is compared without the query", () => {
    expect(matches({ path: { exact: "/a" } }, { target: "/a?b=/c" })).toBe(true);
    expect(matches({ path: { exact: "/a" } }, { target: "/a/" })).toBe(false);
    expect(matches({ path: { startsWith: "/a/" } }, { target: "/a/b" })).toBe(true);
    expect(matches({ path: { startsWith: "/a/" } }, { target: "/b?/a/" })).toBe(false);
  });

  test("is searched by a pattern, which may be anchored", () => {
    expect(matches({ path: { regex: "v[12]/" } }, { target: "/v2/x" })).toBe(true);
    expect(matches({ path: { regex: "^v[12]/" } }, { target: "/v2/x" })).toBe(false);
    expect(matches({ path: { regex: "^/v\\d+/[^/]+$" } }, { target: "/v2/x?y=z" })).toBe(true);
  });

  test.each([
    "/mine/../other",
    "/mine/%2e%2e/other",
    "/mine/..%2fother",
    "/mine\\..\\..\\other",
    "/mine/%2E%2E%2Fother",
    "/mine/./../other",
    "/mine/..;/other",
    "/mine/..;x=1/other",
    "/mine/%252e%252e/other",
    "/mine/%2e%2e;/other",
    "/mine/..%3b/other",
    "/mine/%25252e%25252e/other",
  ])("that may mean another one gets no secret, and no way around an answer: %s", (target) => {
    expect(matches({ path: { startsWith: "/mine/" } }, { target })).toBe(false);
    expect(matches({ path: { startsWith: "/other" } }, { target })).toBe(false);
    expect(matches({ path: { startsWith: "/other" } }, { target }, respond)).toBe(true);
  });

  test.each([
    "/%61dmin",
    "/%61%64%6d%69%6e/",
    "//admin",
    "/x/..//admin",
    "/%2fadmin",
    "/%2561dmin/../admin",
    "/x/..;/admin",
    "/;/admin",
    "/;x=1/admin",
    "/ADMIN",
    "/%41dmin",
    "/%2561dmin",
    "/%252fadmin",
    "/x/%252e%252e/Admin",
  ])("in another spelling is no way around an answer: %s", (target) => {
    expect(matches({ path: { startsWith: "/admin" } }, { target }, respond)).toBe(true);
    expect(matches({ path: { startsWith: "/admin" } }, { target })).toBe(false);
  });

  test("with escapes that mean nothing else is what it is", () => {
    expect(matches({ path: { exact: "/@scope%2fname" } }, { target: "/@scope%2fname" })).toBe(true);
    expect(matches({ path: { exact: "/a%20b" } }, { target: "/a%20b" })).toBe(true);
    expect(matches({ path: { exact: "/100%" } }, { target: "/100%" })).toBe(true);
    expect(matches({ path: { exact: "//twice//" } }, { target: "//twice//" })).toBe(true);
    expect(matches({ path: { exact: "/Case/a;v=1" } }, { target: "/Case/a;v=1" })).toBe(true);
    expect(matches({ path: { exact: "/case" } }, { target: "/Case" })).toBe(false);
  });
});

test("a pattern that stops an answer stops it in any case", () => {
  expect(matches({ path: { regex: "^/admin/\\d+$" } }, { target: "/Admin/7" }, respond)).toBe(true);
  expect(matches({ path: { regex: "^/[^a-z]+$" } }, { target: "/ADMIN" }, respond)).toBe(true);
});

test("a path that can be read in more ways than a program needs is not matched at all", () => {
  const target = `/${"%2525252525252561".repeat(3)};a/..;b//%252e%252e/${"x;y//".repeat(9)}`;
  expect(() => matches({ path: { exact: "/admin" } }, { target }, respond)).toThrow(TooCostly);
});

test("one of the methods is enough, in any case", () => {
  expect(matches({ method: ["get", "POST"] }, { method: "GET" })).toBe(true);
  expect(matches({ method: ["POST"] }, { method: "GET" })).toBe(false);
  expect(matches({ method: [] }, { method: "GET" })).toBe(false);
});

test("every query condition needs a pair of its own, decoded", () => {
  const match: RequestMatch = {
    queryString: [{ key: { exact: "a b" }, value: { startsWith: "1" } }, { key: { regex: "^c$" } }],
  };
  expect(matches(match, { target: "/?a+b=12&c" })).toBe(true);
  expect(matches(match, { target: "/?a%20b=2&a+b=1&c=" })).toBe(true);
  expect(matches(match, { target: "/?a+b=2&c=1" })).toBe(false);
  expect(matches(match, { target: "/" })).toBe(false);
});

test("names of headers have no case, their values do", () => {
  const request = {
    headers: [
      ["X-Kind", "Blue"],
      ["x-kind", "red"],
    ] as [string, string][],
  };
  expect(matches({ headers: [{ key: { exact: "X-KIND" }, value: { exact: "Blue" } }] }, request)).toBe(true);
  expect(matches({ headers: [{ key: { startsWith: "X-K" }, value: { exact: "red" } }] }, request)).toBe(true);
  expect(matches({ headers: [{ key: { regex: "^X-" }, value: { exact: "blue" } }] }, request)).toBe(false);
  expect(matches({ headers: [{ value: { exact: "red" } }] }, request)).toBe(true);
});

test("all conditions must hold, and the first rule that matches wins", () => {
  const rule = (path: string, method: string): RequestRule => ({
    match: { path: { startsWith: path }, method: [method] },
    action: inject,
  });
  const rules = [rule("/a", "POST"), rule("/a", "GET"), { action: respond }, rule("/", "GET")];
  const found = (target: string, method: string) => {
    const first = ruleFor(rules, { target, method, headers: [] });
    return first && rules.indexOf(first);
  };
  expect([found("/a", "GET"), found("/a", "POST"), found("/b", "GET")]).toEqual([1, 0, 2]);
});

test("a request that is too long for its patterns is not matched at all", () => {
  const rules: RequestRule[] = Array.from({ length: 100 }, () => ({
    match: { headers: [{ value: { regex: "a[ab]{400}[^ab]" } }] },
    action: respond,
  }));
  const value = "ab".repeat(15_000);
  const request = { method: "GET", target: "/", headers: [["x", value] as [string, string]] };
  expect(() => ruleFor(rules, request)).toThrow(TooCostly);
  expect(ruleFor(rules, { ...request, headers: [["x", "ab"]] })).toBeUndefined();
});

test("a pattern that would take for ever elsewhere takes no time, and one that is none matches nothing", () => {
  const target = `/${"a".repeat(10_000)}!`;
  expect(matches({ path: { regex: "^/(a+)+$" } }, { target })).toBe(false);
  expect(matches({ path: { regex: "(?=a)" } }, { target })).toBe(false);
  expect(matches({ path: { regex: "(" } }, { target })).toBe(false);
});
