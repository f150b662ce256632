/**
 * Converts network policies between Vercel's wire and the core. Clients send three forms: a mode, an object of allowed
 * domains and subnets, and the flat lists of the SDK's version 1. Answers have one form, without the values of headers.
 */

import { z } from "zod";
import type {
  CustomPolicy,
  DomainRule,
  NetworkPolicy,
  RequestRule,
  RuleAction,
} from "../../core/network/network-policy.ts";
import { subnet as cidr, domainName as domain } from "../kit/policy/network-names.ts";
import {
  forwardUrl,
  hasSafePatterns,
  headerValues as headers,
  matchOf,
  mostPatterns,
  patternsOf,
  requestMatch,
  responseProblem,
  responseShape,
} from "../kit/policy/request-rules.ts";

const most = 1000;
const match = requestMatch;
const webUrl = forwardUrl("forwardURL");
const response = z
  .strictObject({ statusCode: z.int().min(200).max(599), ...responseShape })
  .superRefine((wire, ctx) => {
    const message = responseProblem({ ...wire, status: wire.statusCode });
    if (message !== undefined) ctx.addIssue({ code: "custom", message });
  });

const rule = z
  .strictObject({
    match: match.optional(),
    transform: z
      .array(z.strictObject({ headers: headers.optional() }))
      .max(100)
      .optional(),
    forwardURL: webUrl.optional(),
    response: response.optional(),
  })
  .refine(({ match: _, ...actions }) => given(actions) === 1, {
    error: "a rule should have exactly one of `transform`, `forwardURL` and `response`.",
  });

const objectForm = z.strictObject({
  /** its absence tells this form from the flat one */
  mode: z.never().optional(),
  allow: z
    .union([
      z.array(domain).max(most),
      z
        .record(domain, z.array(rule).max(100))
        .refine((all) => Object.keys(all).length <= most, {
          error: `\`allow\` should NOT have more than ${most} properties.`,
        })
        .refine((all) => Object.values(all).flat().length <= most, {
          error: `a network policy should NOT have more than ${most} rules.`,
        }),
    ])
    .optional(),
  subnets: z
    .strictObject({ allow: z.array(cidr).max(most).optional(), deny: z.array(cidr).max(most).optional() })
    .optional(),
});

const flatForm = z.strictObject({
  mode: z.enum(["allow-all", "deny-all", "custom", "default-allow", "default-deny"]),
  allowedDomains: z.array(domain).max(most).optional(),
  allowedCIDRs: z.array(cidr).max(most).optional(),
  deniedCIDRs: z.array(cidr).max(most).optional(),
  injectionRules: z
    .array(z.strictObject({ domain, headers, match: match.optional() }))
    .max(most)
    .optional(),
  forwardRules: z
    .array(z.strictObject({ domain, forwardURL: webUrl, match: match.optional() }))
    .max(most)
    .optional(),
});

export const networkPolicySchema = z
  .union([
    flatForm.refine(({ mode, ...lists }) => given(lists) === 0 || !["allow-all", "deny-all"].includes(mode), {
      error: "a network policy of mode `allow-all` or `deny-all` should have no other property.",
    }),
    objectForm,
  ])
  .refine((wire) => patternsIn(wire).length <= mostPatterns, {
    abort: true,
    error: `a network policy should NOT have more than ${mostPatterns} \`regex\`.`,
  })
  .refine((wire) => hasSafePatterns(patternsIn(wire)), {
    error:
      "a `regex` is not a regular expression of RE2 (which has no look-around and no references), or is too large.",
  });

export type WirePolicy = z.output<typeof networkPolicySchema>;

export function policyFromWire(wire: WirePolicy): NetworkPolicy {
  if (wire.mode === undefined) return policyFromObject(wire);
  if (wire.mode === "allow-all" || wire.mode === "deny-all") return { mode: wire.mode };
  const rules: [string, RequestRule][] = [
    ...(wire.injectionRules ?? []).map((each): [string, RequestRule] => [
      each.domain,
      ruleOf(each.match, { kind: "set-headers", headers: lastOfEach([each.headers]) }),
    ]),
    ...(wire.forwardRules ?? []).map((each): [string, RequestRule] => [
      each.domain,
      ruleOf(each.match, { kind: "forward", url: each.forwardURL }),
    ]),
  ];
  const names = new Set([...(wire.allowedDomains ?? []), ...rules.map(([name]) => name)]);
  const domains = [...names].map((name) => ({
    domain: name,
    rules: rules.filter(([ofDomain]) => ofDomain === name).map(([, each]) => each),
  }));
  const policy = {
    mode: "custom" as const,
    domains,
    allowedCidrs: wire.allowedCIDRs ?? [],
    deniedCidrs: wire.deniedCIDRs ?? [],
  };
  return wire.mode === "default-allow" ? allowedByDefault(policy) : policy;
}

/** the only form that clients accept in an answer; it leaves out header values */
export function policyToWire(policy: NetworkPolicy): object {
  if (policy.mode !== "custom") return { mode: policy.mode };
  const { domains, allowedCidrs, deniedCidrs } = policy;
  return {
    mode: "custom",
    ...filled(
      "allowedDomains",
      domains.map(({ domain: name }) => name),
    ),
    ...filled("allowedCIDRs", allowedCidrs),
    ...filled("deniedCIDRs", deniedCidrs),
    ...filled(
      "injectionRules",
      actions(domains, "set-headers", ({ headers: all }) => ({ headerNames: Object.keys(all) })),
    ),
    ...filled(
      "forwardRules",
      actions(domains, "forward", ({ url }) => ({ forwardURL: url })),
    ),
    // No client reads these yet, but without them these rules would be invisible.
    ...filled(
      "responseRules",
      actions(domains, "respond", ({ status }) => ({ statusCode: status })),
    ),
  };
}

function policyFromObject({ allow = [], subnets = {} }: z.output<typeof objectForm>): CustomPolicy {
  const domains: DomainRule[] = Array.isArray(allow)
    ? [...new Set(allow)].map((name) => ({ domain: name, rules: [] }))
    : Object.entries(allow).map(([name, rules]) => ({
        domain: name,
        rules: rules.map((each) => ruleOf(each.match, actionOf(each))),
      }));
  return { mode: "custom", domains, allowedCidrs: subnets.allow ?? [], deniedCidrs: subnets.deny ?? [] };
}

/** the `default-allow` mode of the SDK's version 1.4: everything except what is denied */
function allowedByDefault({ domains, allowedCidrs, deniedCidrs }: CustomPolicy): NetworkPolicy {
  const plain = deniedCidrs.length === 0 && domains.every(({ rules }) => rules.length === 0);
  if (plain) return { mode: "allow-all" };
  const everything = domains.some(({ domain: name }) => name === "*") ? [] : [{ domain: "*", rules: [] }];
  return {
    mode: "custom",
    domains: [...domains, ...everything],
    allowedCidrs: [...new Set([...allowedCidrs, "0.0.0.0/0", "::/0"])],
    deniedCidrs,
  };
}

function ruleOf(wire: z.output<typeof match> | undefined, action: RuleAction): RequestRule {
  return wire === undefined ? { action } : { match: matchOf(wire), action };
}

function actionOf({ transform, forwardURL, response: answer }: z.output<typeof rule>): RuleAction {
  if (forwardURL !== undefined) return { kind: "forward", url: forwardURL };
  if (answer !== undefined) {
    const { statusCode, headers: all, body, contentType } = answer;
    return {
      kind: "respond",
      status: statusCode,
      ...(all !== undefined && { headers: all }),
      ...(body !== undefined && { body }),
      ...(contentType !== undefined && { contentType }),
    };
  }
  return { kind: "set-headers", headers: lastOfEach((transform ?? []).map((each) => each.headers ?? {})) };
}

/** header names ignore case, and the last value of each wins */
function lastOfEach(all: Record<string, string>[]): Record<string, string> {
  const pairs = all.flatMap((each) => Object.entries(each));
  return Object.fromEntries(new Map(pairs.map(([name, value]) => [name.toLowerCase(), [name, value]])).values());
}

function patternsIn(wire: z.output<typeof flatForm> | z.output<typeof objectForm>): string[] {
  const rules =
    wire.mode === undefined
      ? Object.values(wire.allow ?? {}).flatMap((each) => (Array.isArray(each) ? each : []))
      : [...(wire.injectionRules ?? []), ...(wire.forwardRules ?? [])];
  return patternsOf(rules.map(({ match: when }) => when));
}

/** the rules of one kind in all domains, formatted by `print` */
function actions<K extends RuleAction["kind"]>(
  domains: DomainRule[],
  kind: K,
  print: (action: Extract<RuleAction, { kind: K }>) => object,
): object[] {
  const isOne = (action: RuleAction): action is Extract<RuleAction, { kind: K }> => action.kind === kind;
  return domains.flatMap(({ domain: name, rules }) =>
    rules.flatMap(({ action, match: when }) =>
      isOne(action) ? [{ domain: name, ...print(action), ...(when !== undefined && { match: when }) }] : [],
    ),
  );
}

function filled(name: string, list: readonly unknown[]): object {
  return list.length === 0 ? {} : { [name]: list };
}

/** the number of members that are set */
function given(value: object): number {
  return Object.values(value).filter((member) => member !== undefined).length;
}
