/** Network policies in the tools' format: a mode, and lists of allowed and denied destinations for `custom`. */

import { z } from "zod";
import type { NetworkPolicy } from "../../core/network/network-policy.ts";
import { domainName, subnet } from "../kit/policy/network-names.ts";

const most = 1000;

const mode = z.enum(["allow-all", "deny-all", "custom"]);
const domains = z.array(domainName).max(most).optional();
const ranges = z.array(subnet).max(most).optional();

/** the schema without descriptions, for tools that are used beside one with descriptions */
export const policy = policyWith({ mode, allowed_domains: domains, allowed_cidrs: ranges, denied_cidrs: ranges });

/** the schema with descriptions, which test/e2e/mcp/truth.test.ts checks against a real network */
export const describedPolicy = policyWith({
  mode: mode.describe("allow-all: every public address. deny-all: nothing, no DNS. custom: only what the lists name."),
  allowed_domains: domains.describe(
    "Hosts reachable over TLS only: https works, http does not. *.example.com: every name below it. " +
      "A bare *: every public host, http too.",
  ),
  allowed_cidrs: ranges.describe("Address ranges reachable by any protocol, http too: 203.0.113.0/24."),
  denied_cidrs: ranges.describe("Ranges that stay closed whatever the other lists say."),
});

type Policy = z.output<typeof policy>;

function policyWith(parts: {
  mode: typeof mode;
  allowed_domains: typeof domains;
  allowed_cidrs: typeof ranges;
  denied_cidrs: typeof ranges;
}) {
  return z
    .strictObject(parts)
    .refine(
      ({ mode: word, ...lists }) => word === "custom" || Object.values(lists).every((list) => list === undefined),
      "`network_policy` has lists, which only the mode `custom` has.",
    );
}

export function policyOf({ mode, ...lists }: Policy): NetworkPolicy {
  if (mode !== "custom") return { mode };
  return {
    mode,
    domains: [...new Set(lists.allowed_domains)].map((domain) => ({ domain, rules: [] })),
    allowedCidrs: lists.allowed_cidrs ?? [],
    deniedCidrs: lists.denied_cidrs ?? [],
  };
}

/** prints a policy without its rules, which only other wires show */
export function printPolicy(it: NetworkPolicy): Policy {
  if (it.mode !== "custom") return { mode: it.mode };
  return {
    mode: it.mode,
    allowed_domains: it.domains.map(({ domain }) => domain),
    allowed_cidrs: it.allowedCidrs,
    denied_cidrs: it.deniedCidrs,
  };
}
