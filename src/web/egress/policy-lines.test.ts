/** Network policies as lines. */

import { expect, test } from "vitest";
import { changesOf, hasRules, linesIn, linesOf, policyText, ruleWords } from "./policy-lines.ts";

const custom = {
  mode: "custom" as const,
  domains: [{ domain: "*.example.com", rules: [] }],
  allowedCidrs: ["203.0.113.0/24"],
  deniedCidrs: ["203.0.113.7/32"],
};

test("a policy becomes lines, and lines a policy", () => {
  expect(linesOf(custom)).toEqual(["*.example.com", "203.0.113.0/24", "!203.0.113.7/32"]);
  expect(linesOf({ ...custom, mode: "deny-all" })).toEqual(["deny-all"]);
  expect(linesIn(" A.test\n\nb.test, a.test \n")).toEqual(["a.test", "b.test"]);
  expect([policyText(["a.test", "!10.0.0.0/8"]), policyText([])]).toEqual(["a.test, !10.0.0.0/8", "deny-all"]);
});

test("a difference has what stays, what goes and what comes", () => {
  expect(changesOf(["a", "b"], ["c", "a"])).toEqual([
    { line: "a", change: "kept" },
    { line: "b", change: "removed" },
    { line: "c", change: "added" },
  ]);
});

test("rules are known, and are words", () => {
  const rules = [{ kind: "set-headers" as const, headerNames: ["authorization"] }];
  expect([hasRules(custom), hasRules({ ...custom, domains: [{ domain: "a.test", rules }] })]).toEqual([false, true]);
  expect(rules.map(ruleWords)).toEqual(["requests get authorization"]);
  expect(ruleWords({ kind: "respond", status: 404 })).toBe("requests are answered with 404");
});
