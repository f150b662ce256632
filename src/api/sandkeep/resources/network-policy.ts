/** Network policies: what a sandbox may reach. Requests may write one as a line of text; answers leave out header values. */

import { z } from "zod";
import type { NetworkPolicy, RequestRule, RuleAction } from "../../../core/network/network-policy.ts";
import { policyOfText } from "../../../core/network/policy-text.ts";
import { domainName, subnet } from "../../kit/policy/network-names.ts";
import {
  forwardUrl,
  hasSafePatterns,
  headerValues,
  mostPatterns,
  patternsOf,
  requestMatch,
  responseProblem,
  responseShape,
} from "../../kit/policy/request-rules.ts";

const most = 1000;
const mostRules = 100;

const newAction = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("set-headers"), headers: headerValues }),
  z.strictObject({ kind: z.literal("forward"), url: forwardUrl("url") }),
  z
    .strictObject({ kind: z.literal("respond"), status: z.int().min(200).max(599), ...responseShape })
    .superRefine((wire, ctx) => {
      const message = responseProblem(wire);
      if (message !== undefined) ctx.addIssue({ code: "custom", message });
    }),
]);
const newRule = z.strictObject({ match: requestMatch.optional(), action: newAction });
const newDomain = z.strictObject({ domain: domainName, rules: z.array(newRule).max(mostRules).default([]) });

const customPolicy = z
  .strictObject({
    mode: z.literal("custom"),
    domains: z.array(newDomain).max(most).default([]),
    allowedCidrs: z.array(subnet).max(most).default([]),
    deniedCidrs: z.array(subnet).max(most).default([]),
  })
  .refine(({ domains }) => domains.flatMap(({ rules }) => rules).length <= most, {
    error: `a network policy should NOT have more than ${most} rules.`,
  })
  .refine(({ domains }) => new Set(domains.map(({ domain }) => domain)).size === domains.length, {
    error: "a network policy should NOT name a domain twice.",
  })
  .refine((policy) => patternsIn(policy).length <= mostPatterns, {
    abort: true,
    error: `a network policy should NOT have more than ${mostPatterns} \`regex\`.`,
  })
  .refine((policy) => hasSafePatterns(patternsIn(policy)), {
    error: "a `regex` is not a regular expression of RE2, or is too large.",
  });

function patternsIn({ domains }: { domains: z.output<typeof newDomain>[] }): string[] {
  return patternsOf(domains.flatMap(({ rules }) => rules.map(({ match }) => match)));
}

export const newNetworkPolicy = z
  .union([z.string().min(1).max(16_384), z.strictObject({ mode: z.enum(["allow-all", "deny-all"]) }), customPolicy])
  .meta({
    id: "NewNetworkPolicy",
    description: "An object, or a line such as `deny-all` or `registry.npmjs.org, *.github.com, 203.0.113.0/24`",
  });

export const networkPolicy = z
  .object({
    mode: z.enum(["allow-all", "deny-all", "custom"]),
    domains: z.array(
      z.object({
        domain: z.string(),
        rules: z.array(
          z.object({
            kind: z.enum(["set-headers", "forward", "respond"]),
            match: z.unknown().optional(),
            headerNames: z.array(z.string()).optional().meta({ description: "Values are never shown" }),
            url: z.string().optional(),
            status: z.int().optional(),
          }),
        ),
      }),
    ),
    allowedCidrs: z.array(z.string()),
    deniedCidrs: z.array(z.string()),
  })
  .meta({ id: "NetworkPolicy" });

/** the core's form of what a request says */
export function readPolicy(wire: z.output<typeof newNetworkPolicy>): NetworkPolicy {
  if (typeof wire === "string") return policyOfText(wire);
  // The schema has the shape of the core's type, in which absent members are missing instead of undefined.
  return JSON.parse(JSON.stringify(wire)) as NetworkPolicy;
}

export function printPolicy(policy: NetworkPolicy): z.input<typeof networkPolicy> {
  if (policy.mode !== "custom") return { mode: policy.mode, domains: [], allowedCidrs: [], deniedCidrs: [] };
  const { mode, domains, allowedCidrs, deniedCidrs } = policy;
  const printed = domains.map(({ domain, rules }) => ({ domain, rules: rules.map(printRule) }));
  return { mode, domains: printed, allowedCidrs, deniedCidrs };
}

function printRule({ match, action }: RequestRule) {
  return { kind: action.kind, ...(match && { match }), ...printAction(action) };
}

function printAction(action: RuleAction) {
  if (action.kind === "forward") return { url: action.url };
  return action.kind === "respond" ? { status: action.status } : { headerNames: Object.keys(action.headers) };
}
