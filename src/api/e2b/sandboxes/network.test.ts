/** How E2B's lists of destinations become a policy of the core. */

import { expect, test } from "vitest";
import { parseCidr } from "../../../core/network/cidr.ts";
import { compilePolicy } from "../../../core/network/network-policy.ts";
import { notesFor, policyOf, without } from "./network.ts";

const everything = "0.0.0.0/0";
const rule = { "api.example.com": [{ transform: { headers: { authorization: "secret" } } }] };
const custom = { mode: "custom", domains: [], allowedCidrs: [], deniedCidrs: [] };

test.each([
  [{}, undefined, { mode: "allow-all" }],
  [{ allowOut: ["1.1.1.1"] }, true, { mode: "allow-all" }],
  [{}, false, { mode: "deny-all" }],
  [{ denyOut: [everything] }, undefined, { mode: "deny-all" }],
  [
    { denyOut: ["0.0.0.0/0"], allowOut: ["1.1.1.1", "10.0.0.0/8"] },
    undefined,
    { allowedCidrs: ["1.1.1.1/32", "10.0.0.0/8"] },
  ],
  [{ allowOut: ["*.example.com"] }, false, { domains: [{ domain: "*.example.com", rules: [] }] }],
  [{ denyOut: ["8.8.8.8"] }, true, { domains: [{ domain: "*", rules: [] }], deniedCidrs: ["8.8.8.8/32"] }],
  [{ denyOut: ["8.8.8.8"], allowOut: ["8.8.0.0/16"] }, true, { mode: "allow-all" }],
])("%j with internet access %j", (egress, internet, policy) => {
  expect(policyOf(egress, internet)).toEqual("mode" in policy ? policy : { ...custom, ...policy });
});

test("an allowed address is cut out of a denied range", () => {
  const policy = policyOf({ denyOut: ["8.8.0.0/16", "2001:db8::/32"], allowOut: ["8.8.4.0/24", "2001:db8::1"] });
  if (policy.mode !== "custom") throw new Error("There is nothing denied");
  const { address } = compilePolicy(policy);
  const isDenied = (text: string) => address(text)?.allowed === false;
  expect(["8.8.4.0", "8.8.4.255", "8.9.0.0", "2001:db8::1", "2001:db9::"].filter(isDenied)).toEqual([]);
  const denied = ["8.8.0.0", "8.8.3.255", "8.8.5.0", "8.8.255.255", "2001:db8::", "2001:db8::2", "2001:db8:ffff::"];
  expect(denied.filter(isDenied)).toEqual(denied);
});

test("a rule may have no transform and no headers, and then changes nothing", () => {
  const rules = { "api.example.com": [{}, { transform: {} }, { transform: { headers: {} } }] };
  expect(policyOf({ denyOut: [everything], allowOut: ["api.example.com"], rules })).toMatchObject({
    domains: [{ domain: "api.example.com", rules: [] }],
  });
  expect(notesFor({ rules }, undefined)).toEqual({ network: { rules } });
});

test("a range minus itself is empty", () => {
  const range = parseCidr("10.0.0.0/8");
  expect(range && without(range, [range])).toEqual([]);
});

test("rules set headers for allowed domains, and allow nothing themselves", () => {
  const rules = [{ action: { kind: "set-headers", headers: { authorization: "secret" } } }];
  expect(policyOf({ rules: rule })).toMatchObject({
    domains: [
      { domain: "*", rules: [] },
      { domain: "api.example.com", rules },
    ],
  });
  const closed = { denyOut: [everything], rules: rule };
  expect(policyOf({ ...closed, allowOut: ["api.example.com"] })).toMatchObject({
    domains: [{ domain: "api.example.com", rules }],
  });
  expect(policyOf({ ...closed, allowOut: ["*.example.com"] })).toMatchObject({
    domains: [{ domain: "*.example.com" }, { domain: "api.example.com", rules }],
  });
  expect(() => policyOf({ ...closed, allowOut: ["example.com"] })).toThrow("allowOut");
});

test("domains can be allowed only if everything else is denied", () => {
  expect(() => policyOf({ allowOut: ["example.com"] })).toThrow("denyOut");
});

test("the values of headers are not shown", () => {
  expect(notesFor({ rules: rule, allowPublicTraffic: false }, true)).toEqual({
    allowInternetAccess: true,
    network: {
      allowPublicTraffic: false,
      rules: { "api.example.com": [{ transform: { headers: { authorization: "[hidden]" } } }] },
    },
  });
});
