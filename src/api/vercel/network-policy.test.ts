/** Network policies in each form that clients send, and in the one form that they accept. */

import { describe, expect, test } from "vitest";
import { parsed } from "../kit/http.ts";
import { networkPolicySchema, policyFromWire, policyToWire } from "./network-policy.ts";

function read(wire: unknown) {
  return policyFromWire(parsed(networkPolicySchema, wire));
}

const everything = {
  allow: {
    "API.example.com": [
      {
        transform: [{ headers: { Authorization: "Bearer s", "x-a": "1" } }, { headers: { "x-a": "2" } }],
        match: { method: ["POST"], path: { startsWith: "/v1" } },
      },
      { forwardURL: "https://proxy.example.com/x" },
      { response: { statusCode: 403, body: "no", contentType: "text/plain", headers: { "x-b": "secret" } } },
    ],
    "*.example.org": [
      {
        transform: [{}],
        match: { queryString: [{ key: { exact: "k" }, value: { regex: "^v" } }], headers: [{ key: { exact: "h" } }] },
      },
    ],
    "*": [],
  },
  subnets: { allow: ["10.0.0.0/8", "fd00::/8"], deny: ["10.1.0.0/16"] },
};

describe("coming in", () => {
  test("modes", () => {
    expect(read({ mode: "allow-all" })).toEqual({ mode: "allow-all" });
    expect(read({ mode: "deny-all" })).toEqual({ mode: "deny-all" });
  });

  test("an empty object allows nothing", () => {
    expect(read({})).toEqual({ mode: "custom", domains: [], allowedCidrs: [], deniedCidrs: [] });
  });

  test("a list of domains and subnets", () => {
    expect(read({ allow: ["a.com", "a.com", "*.b.com"], subnets: { deny: ["1.2.3.4/32"] } })).toEqual({
      mode: "custom",
      domains: [
        { domain: "a.com", rules: [] },
        { domain: "*.b.com", rules: [] },
      ],
      allowedCidrs: [],
      deniedCidrs: ["1.2.3.4/32"],
    });
  });

  test("rules of every kind, in order", () => {
    expect(read(everything)).toEqual({
      mode: "custom",
      domains: [
        {
          domain: "api.example.com",
          rules: [
            {
              match: { method: ["POST"], path: { startsWith: "/v1" } },
              action: { kind: "set-headers", headers: { Authorization: "Bearer s", "x-a": "2" } },
            },
            { action: { kind: "forward", url: "https://proxy.example.com/x" } },
            {
              action: {
                kind: "respond",
                status: 403,
                body: "no",
                contentType: "text/plain",
                headers: { "x-b": "secret" },
              },
            },
          ],
        },
        {
          domain: "*.example.org",
          rules: [
            {
              match: {
                queryString: [{ key: { exact: "k" }, value: { regex: "^v" } }],
                headers: [{ key: { exact: "h" } }],
              },
              action: { kind: "set-headers", headers: {} },
            },
          ],
        },
        { domain: "*", rules: [] },
      ],
      allowedCidrs: ["10.0.0.0/8", "fd00::/8"],
      deniedCidrs: ["10.1.0.0/16"],
    });
  });

  test("the flat lists of version 1", () => {
    const flat = {
      mode: "custom",
      allowedDomains: ["a.com"],
      allowedCIDRs: ["10.0.0.0/8"],
      deniedCIDRs: [],
      injectionRules: [{ domain: "b.com", headers: { x: "1" } }],
      forwardRules: [{ domain: "a.com", forwardURL: "https://p.com" }],
    };
    expect(read(flat)).toMatchObject({
      domains: [
        { domain: "a.com", rules: [{ action: { kind: "forward", url: "https://p.com" } }] },
        { domain: "b.com", rules: [{ action: { kind: "set-headers", headers: { x: "1" } } }] },
      ],
      allowedCidrs: ["10.0.0.0/8"],
    });
  });

  test("the two defaults of version 1.4", () => {
    expect(read({ mode: "default-allow" })).toEqual({ mode: "allow-all" });
    expect(read({ mode: "default-deny", allowedDomains: ["a.com"] })).toMatchObject({
      mode: "custom",
      domains: [{ domain: "a.com", rules: [] }],
    });
    expect(read({ mode: "default-allow", deniedCIDRs: ["10.0.0.0/8"] })).toEqual({
      mode: "custom",
      domains: [{ domain: "*", rules: [] }],
      allowedCidrs: ["0.0.0.0/0", "::/0"],
      deniedCidrs: ["10.0.0.0/8"],
    });
  });

  test.each([
    "deny-all",
    null,
    [],
    { mode: "open" },
    { mode: "allow-all", allowedDomains: ["a.com"] },
    { allow: "a.com" },
    { allow: ["a b"] },
    { allow: ["http://a.com"] },
    { allow: ["a.com."] },
    { allow: ["*a.com"] },
    { allow: ["münchen.de"] },
    { allow: ["x".repeat(254)] },
    { allow: Array(1001).fill("a.com") },
    { allow: { "a.com": [{}] } },
    { allow: { "a.com": [{ forwardURL: "https://x", transform: [] }] } },
    { allow: { "a.com": [{ forwardURL: "ftp://x" }] } },
    { allow: { "a.com": [{ transform: [{ headers: { "a b": "1" } }] }] } },
    { allow: { "a.com": [{ transform: [{ headers: { a: "1\r\nb: 2" } }] }] } },
    { allow: { "a.com": [{ transform: [], match: { path: {} } }] } },
    { allow: { "a.com": [{ transform: [], match: { path: { exact: "a", regex: "b" } } }] } },
    { allow: { "a.com": [{ transform: [], match: { path: { regex: "(" } } }] } },
    // JavaScript supports these, but the engine that applies the rules does not, and would let everything through.
    { allow: { "a.com": [{ response: { statusCode: 403 }, match: { path: { regex: "^/(?!public)" } } }] } },
    { allow: { "a.com": [{ response: { statusCode: 403 }, match: { path: { regex: "(a)\\1" } } }] } },
    { allow: { "a.com": [{ transform: [], match: { headers: [{ value: { regex: "(a?){1000}b?" } }] } }] } },
    { allow: { "a.com": [{ transform: [], match: { queryString: [{ key: { regex: "(?=a)" } }] } }] } },
    { mode: "custom", injectionRules: [{ domain: "a.com", headers: {}, match: { path: { regex: "a{1001}" } } }] },
    { mode: "custom", forwardRules: [{ domain: "a.com", forwardURL: "https://x", match: { path: { regex: ")" } } }] },
    {
      allow: Object.fromEntries(
        Array.from({ length: 101 }, (_, at) => [`a${at}.com`, Array(10).fill({ transform: [] })]),
      ),
    },
    { allow: { "a.com": [{ forwardURL: "https://user:password@x" }] } },
    { allow: { "a.com": [{ transform: [{ headers: { a: "1\0" } }] }] } },
    { allow: { "a.com": [{ transform: [{ headers: { a: "€" } }] }] } },
    { allow: { "a.com": [{ response: { statusCode: 200, body: "x", contentType: "€" } }] } },
    { allow: { "a.com": [{ transform: [], match: { body: "x" } }] } },
    { allow: { "a.com": [{ response: { statusCode: 199 } }] } },
    { allow: { "a.com": [{ response: { statusCode: 200, body: "x" } }] } },
    { allow: { "a.com": [{ response: { statusCode: 204, body: "x", contentType: "a/b" } }] } },
    { allow: { "a.com": [{ response: { statusCode: 200, headers: { Connection: "close" } } }] } },
    { allow: { "a.com": [{ response: { statusCode: 200, headers: { A: "1", a: "2" } } }] } },
    { subnets: { allow: ["10.0.0.0"] } },
    { subnets: { allow: ["10.0.0.0/33"] } },
    { subnets: { allow: ["::/129"] } },
    { subnets: { allow: ["host/8"] } },
    { subnets: { deny: [1] } },
    { injectionRules: [] },
    { mode: "custom", injectionRules: [{ domain: "a.com", headerNames: ["x"] }] },
  ])("%j is refused", (wire) => {
    expect(() => read(wire)).toThrow();
  });
});

test("too many patterns are refused before any is checked", () => {
  const withPatterns = (length: number) => {
    const path = { regex: "^/v1/[a-z]{1,20}$" };
    return { allow: { "a.com": Array(length).fill({ transform: [], match: { path } }) } };
  };
  const both = { "a.com": withPatterns(50).allow["a.com"], "b.com": withPatterns(51).allow["a.com"] };
  expect(() => read({ allow: both })).toThrow();
  expect(() => read(withPatterns(100))).not.toThrow();
});

test("a header is set once, by the last transform, ignoring case", () => {
  const transform = [{ headers: { "X-A": "1", b: "2" } }, {}, { headers: { "x-a": "3" } }];
  expect(read({ allow: { "a.com": [{ transform }] } })).toMatchObject({
    domains: [{ rules: [{ action: { headers: { "x-a": "3", b: "2" } } }] }],
  });
});

describe("going out", () => {
  test("modes", () => {
    expect(policyToWire({ mode: "deny-all" })).toEqual({ mode: "deny-all" });
    expect(policyToWire(read({}))).toEqual({ mode: "custom" });
  });

  test("shows names of headers, but no value, body or secret", () => {
    const wire = policyToWire(read(everything));
    expect(wire).toEqual({
      mode: "custom",
      allowedDomains: ["api.example.com", "*.example.org", "*"],
      allowedCIDRs: ["10.0.0.0/8", "fd00::/8"],
      deniedCIDRs: ["10.1.0.0/16"],
      injectionRules: [
        {
          domain: "api.example.com",
          headerNames: ["Authorization", "x-a"],
          match: { method: ["POST"], path: { startsWith: "/v1" } },
        },
        {
          domain: "*.example.org",
          headerNames: [],
          match: { queryString: [{ key: { exact: "k" }, value: { regex: "^v" } }], headers: [{ key: { exact: "h" } }] },
        },
      ],
      forwardRules: [{ domain: "api.example.com", forwardURL: "https://proxy.example.com/x" }],
      responseRules: [{ domain: "api.example.com", statusCode: 403 }],
    });
    expect(JSON.stringify(wire)).not.toMatch(/Bearer|secret|"no"/);
  });
});
