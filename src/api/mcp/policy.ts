/** A network policy in the words of the tools: a mode, and for the custom one what may be reached. */

import { z } from "zod";
import type { NetworkPolicy } from "../../core/network-policy.ts";
import { domainName, subnet } from "../network-names.ts";

const most = 1000;

export const policy = z
  .strictObject({
    mode: z
      .enum(["allow-all", "deny-all", "custom"])
      .describe("allow-all: the whole internet. deny-all: nothing. custom: only what the lists name."),
    allowed_domains: z
      .array(domainName)
      .max(most)
      .optional()
      .describe("Domains that may be reached over TLS or HTTP; *.example.com stands for all below it."),
    allowed_cidrs: z.array(subnet).max(most).optional().describe("Address ranges that may be reached: 203.0.113.0/24."),
    denied_cidrs: z.array(subnet).max(most).optional().describe("Address ranges that may not, whatever else says so."),
  })
  .refine(
    ({ mode, ...lists }) => mode === "custom" || Object.values(lists).every((list) => list === undefined),
    "`network_policy` has lists, which only the mode `custom` has.",
  )
  .describe("What the sandbox may reach. Default allow-all.");

export function policyOf({ mode, ...lists }: z.output<typeof policy>): NetworkPolicy {
  if (mode !== "custom") return { mode };
  return {
    mode,
    domains: [...new Set(lists.allowed_domains)].map((domain) => ({ domain, rules: [] })),
    allowedCidrs: lists.allowed_cidrs ?? [],
    deniedCidrs: lists.denied_cidrs ?? [],
  };
}

/** what rules do with requests is told on the wires that have rules */
export function printPolicy(it: NetworkPolicy): z.output<typeof policy> {
  if (it.mode !== "custom") return { mode: it.mode };
  return {
    mode: it.mode,
    allowed_domains: it.domains.map(({ domain }) => domain),
    allowed_cidrs: it.allowedCidrs,
    denied_cidrs: it.deniedCidrs,
  };
}
