/** Tests of which policy is suggested for a log, and what is never suggested. */

import { expect, test } from "vitest";
import type { EgressDecision } from "../../protocols/egress-log.ts";
import type { EgressLine } from "./egress-log.ts";
import { suggestPolicy } from "./policy-suggestion.ts";

test("names come from TLS and from DNS questions, each once and in order", () => {
  const { policy, notes } = suggest(
    { protocol: "dns", name: "b.test", type: "A", allowed: true, rule: "allow-all" },
    { protocol: "dns", name: "b.test", type: "AAAA", allowed: true, rule: "allow-all" },
    {
      protocol: "tls",
      sni: "b.test",
      name: "b.test",
      address: "93.184.216.34",
      port: 443,
      allowed: true,
      rule: "allow-all",
    },
    { protocol: "dns", name: "a.test", type: "A", allowed: false, reason: "no", missing: { allow: ["a.test"] } },
    { protocol: "dns", name: "34.216.184.93.in-addr.arpa", type: "PTR", allowed: true, rule: "allow-all" },
  );
  expect(policy).toEqual({
    mode: "custom",
    domains: [
      { domain: "a.test", rules: [] },
      { domain: "b.test", rules: [] },
    ],
    allowedCidrs: [],
    deniedCidrs: [],
  });
  expect(notes).toEqual([]);
});

test("traffic that names cannot allow needs a subnet of one address, and a note says why", () => {
  const at = { address: "93.184.216.34", port: 80 };
  const { policy, notes } = suggest(
    { protocol: "http", name: "a.test", ...at, method: "GET", path: "/", allowed: true, rule: "allow-all" },
    {
      protocol: "udp",
      address: "2606:2800::1",
      port: 123,
      allowed: false,
      reason: "no",
      missing: { subnets: { allow: ["x"] } },
    },
    { protocol: "tls", address: "93.184.216.36", port: 443, allowed: true, rule: "subnets.allow 93.0.0.0/8" },
    {
      protocol: "tls",
      sni: "a.test",
      address: "93.184.216.66",
      port: 443,
      allowed: false,
      reason: '"a.test" does not lead to 93.184.216.66',
      missing: { subnets: { allow: ["93.184.216.66/32"] } },
    },
  );
  expect(policy.domains).toEqual([]);
  expect(policy.allowedCidrs).toEqual(["2606:2800::1/128", "93.184.216.34/32", "93.184.216.36/32", "93.184.216.66/32"]);
  expect(notes).toEqual([
    "93.184.216.34/32 is for a.test port 80: plain HTTP is allowed by subnet only; with https its name would do",
    "2606:2800::1/128 is for [2606:2800::1] port 123: datagrams are allowed by subnet only",
    "93.184.216.36/32 is for 93.184.216.36 port 443: its TLS names no host, so it is allowed by subnet only",
    '93.184.216.66/32 is for a.test port 443: "a.test" does not lead to 93.184.216.66',
  ]);
});

const special = { kind: "special-address" } as const;

test("addresses that are denied on purpose or not public are noted and not suggested", () => {
  const { policy, notes } = suggest(
    {
      protocol: "tls",
      sni: "a.test",
      address: "93.184.216.66",
      port: 443,
      allowed: false,
      rule: "subnets.deny 93.184.216.66/32",
      cause: { kind: "denied-subnet", subnet: "93.184.216.66/32" },
      reason: "93.184.216.66 is in 93.184.216.66/32, which the policy denies",
    },
    {
      protocol: "tcp",
      address: "169.254.169.254",
      port: 80,
      allowed: false,
      reason: "169.254.169.254 is link-local",
      cause: special,
    },
    { protocol: "dns", name: "-x.test", type: "A", allowed: true, rule: "allow-all" },
    { protocol: "dns", name: "93.184.216.34", type: "A", allowed: true, rule: "allow-all" },
  );
  expect(policy.domains).toEqual([]);
  expect(policy.allowedCidrs).toEqual([]);
  expect(notes).toEqual([
    "93.184.216.66 stays denied: 93.184.216.66 is in 93.184.216.66/32, which the policy denies",
    "169.254.169.254 port 80 is refused under every policy: 169.254.169.254 is link-local",
    '"-x.test" is not in this policy: it is not a valid domain name',
    '"93.184.216.34" is not in this policy: it is not a valid domain name',
  ]);
});

test("under deny-all the suggestion comes from refused attempts; a service is allowed by its host", () => {
  const denied = {
    allowed: false,
    rule: "deny-all",
    reason: "the policy is deny-all",
    cause: { kind: "deny-all" },
  } as const;
  const subnets = { allow: ["93.184.216.34/32"] };
  const { policy, notes } = suggest(
    { protocol: "dns", name: "a.test", type: "A", ...denied, missing: { allow: ["a.test"] } },
    { protocol: "dns", name: "_db._tcp.b.test", type: "SRV", ...denied, missing: { allow: ["b.test"] } },
    { protocol: "dns", address: "198.18.0.1", port: 53, ...denied },
    { protocol: "tcp", address: "93.184.216.34", port: 443, ...denied, missing: { subnets } },
    { protocol: "udp", address: "93.184.216.34", port: 123, ...denied, missing: { subnets } },
    { protocol: "tcp", address: "10.0.0.1", port: 80, allowed: false, reason: "10.0.0.1 is private", cause: special },
    {
      protocol: "icmp",
      address: "93.184.216.35",
      allowed: false,
      reason: "no policy lets ICMP out",
      cause: { kind: "unsupported" },
    },
  );
  expect(policy.domains.map(({ domain }) => domain)).toEqual(["a.test", "b.test"]);
  expect(policy.allowedCidrs).toEqual(["93.184.216.34/32"]);
  expect(notes).toEqual([
    "93.184.216.34/32 is for 93.184.216.34 port 443: under deny-all its protocol stays unknown; for HTTPS its name would be enough",
    "93.184.216.34/32 is for 93.184.216.34 port 123: datagrams are allowed by subnet only",
    "10.0.0.1 port 80 is refused under every policy: 10.0.0.1 is private",
    "93.184.216.35 is refused under every policy: no policy lets ICMP out",
  ]);
});

test("requests add nothing to their connection, but lost rules are noted; a cut-off connection was allowed", () => {
  const at = { address: "93.184.216.34", port: 443, name: "a.test" };
  const { policy, notes } = suggest(
    { protocol: "tls", sni: "a.test", ...at, allowed: true, rule: "allow a.test" },
    {
      protocol: "https",
      ...at,
      method: "GET",
      path: "/",
      allowed: true,
      rule: "allow a.test, rule 1: set-headers",
      cause: { kind: "request", rule: 1 },
    },
    {
      protocol: "https",
      ...at,
      method: "PUT",
      path: "/",
      allowed: true,
      rule: "allow a.test",
      cause: { kind: "request" },
    },
    {
      protocol: "tcp",
      ...at,
      sni: "a.test",
      allowed: false,
      reason: "cut off: its rules have changed",
      cause: { kind: "cut-off" },
    },
  );
  expect(policy.domains).toEqual([{ domain: "a.test", rules: [] }]);
  expect(policy.allowedCidrs).toEqual([]);
  expect(notes).toEqual(["The rules for a.test are not repeated here: add them again"]);
});

test("refusals by an older egress process, without a cause, are noted and not suggested", () => {
  const at = { address: "93.184.216.34", port: 443 };
  const { policy, notes } = suggest(
    { protocol: "tcp", ...at, allowed: false, reason: "cut off: its rules have changed" },
    { protocol: "tcp", ...at, allowed: false, reason: "93.184.216.34 is in 93.0.0.0/8, which the policy denies" },
  );
  expect(policy.allowedCidrs).toEqual([]);
  expect(notes).toEqual([
    "93.184.216.34 port 443 is not in this policy: cut off: its rules have changed",
    "93.184.216.34 port 443 is not in this policy: 93.184.216.34 is in 93.0.0.0/8, which the policy denies",
  ]);
});

test("a flood makes neither a policy too large for the API nor endless notes, and unseen decisions are noted", () => {
  const flood = Array.from({ length: 3000 }, (_, i): EgressDecision => {
    return { protocol: "udp", address: `93.1.${i >> 8}.${i & 255}`, port: 1, allowed: true, rule: "allow-all" };
  });
  const gaps: EgressLine[] = [
    { id: 1, at: 1, dropped: 5 },
    { id: 2, at: 2, forgotten: 2 },
  ];
  const { policy, notes } = suggestPolicy([...gaps, ...flood.map(lineOf)]);
  expect(policy.allowedCidrs).toHaveLength(1000);
  expect(notes).toHaveLength(51);
  expect(suggestPolicy(gaps).notes).toEqual([
    "At least 7 decisions are not in the log: what they were about is not in this policy",
  ]);
});

function suggest(...decisions: EgressDecision[]) {
  return suggestPolicy(decisions.map(lineOf));
}

function lineOf(decision: EgressDecision, index: number): EgressLine {
  return { id: index + 1, at: 1, ...decision, count: 1, ended: 0, bytesIn: 0, bytesOut: 0 };
}
