/**
 * Decides whether a sandbox may reach a destination; no other file does. Under deny-all the kernel's ruleset refuses packets
 * by itself, and this file only explains them (kernel-refusal.ts). Everything here is pure, so that open connections can be
 * judged again when the policy changes.
 */

import { isAlone } from "../../core/network/cidr.ts";
import {
  type CustomNetwork,
  compilePolicy,
  hostOfQuestion,
  type PolicyMatcher,
  type RequestRule,
} from "../../core/network/network-policy.ts";
import type { EgressCause, EgressDecision, MissingPermission } from "../../protocols/egress-log.ts";
import type { Destination } from "../../protocols/netd-channel.ts";
import { type AddressRules, embeddedIPv4 } from "./addresses.ts";

/** What is in force for a machine. */
export type Policy =
  | { kind: "open" }
  /** it has a policy that has not arrived yet: nothing gets out until then */
  | { kind: "unknown" }
  | {
      kind: "custom";
      matcher: PolicyMatcher;
      network: CustomNetwork;
      /** hosts with rules by their full names, where everything else is allowed */
      ruledHosts: readonly string[];
    };

export type Verdict = {
  cause: EgressCause;
} /** `rules` are what is to be done to requests; undefined where TLS stays closed */ & (
  | { allowed: true; rule: string; rules?: readonly RequestRule[] }
  | { allowed: false; reason: string; rule?: string; missing?: MissingPermission }
);

/** what the log says of a verdict */
export function outcomeOf(verdict: Verdict): Pick<EgressDecision, "allowed" | "reason" | "rule" | "cause" | "missing"> {
  const { allowed, rule, cause } = verdict;
  if (verdict.allowed) return { allowed, rule: verdict.rule, cause };
  const { reason, missing } = verdict;
  return { allowed, reason, cause, ...(rule !== undefined && { rule }), ...(missing && { missing }) };
}

/** What is known of a connection or a flow. */
export interface Attempt extends Destination {
  protocol: "tcp" | "udp";
  /** the name in its TLS hello, once that was found to lead to the address */
  name?: string;
  /** the hosts that a request in plain HTTP names, which nothing proves */
  claimed?: readonly string[];
  /** names that are known to lead to the address */
  leads?: readonly string[];
  /** whether it speaks SSH, which no rule is about */
  isSsh?: boolean;
  /** what it speaks instead, as words that fit after "it" */
  instead?: string;
}

const unknownPolicy: Verdict = {
  allowed: false,
  reason: "the sandbox's policy is not known yet",
  cause: { kind: "unknown-policy" },
};
const openPolicy: Verdict = { allowed: true, rule: "allow-all", cause: { kind: "allow-all" } };

function allowedBy(rule: string): Extract<Verdict, { allowed: true }> {
  return { allowed: true, rule, cause: { kind: "policy" } };
}

export function customPolicy(network: CustomNetwork): Policy {
  const matcher = compilePolicy(network);
  const exact = matcher.everything && matcher.ruled ? network.domains.map(({ domain }) => domain) : [];
  const isRuled = (domain: string) => !domain.includes("*") && (matcher.name(domain)?.rules.length ?? 0) > 0;
  return { kind: "custom", matcher, network, ruledHosts: exact.filter(isRuled) };
}

/**
 * Ports of resolvers. A subnet may have a resolver of its own, which would pass on any name and the data hidden in it. So a
 * policy that lists names must allow the exact address of such a resolver.
 */
const resolverPorts = [53, 853];

/** the verdict where the address alone decides; undefined where the name has to be known */
export function judgeAddress(policy: Policy, attempt: Attempt, addresses: AddressRules): Verdict | undefined {
  const { address, port } = attempt;
  if (policy.kind === "unknown") return unknownPolicy;
  if (port === 0) return { allowed: false, reason: "port 0 is not valid", cause: { kind: "unsupported" } };
  const range = policy.kind === "custom" ? rangeOf(policy.matcher, address) : undefined;
  if (range && !range.allowed) {
    const { text } = range.cidr;
    const cause: EgressCause = { kind: "denied-subnet", subnet: text };
    return {
      allowed: false,
      rule: `subnets.deny ${text}`,
      reason: `${address} is in ${text}, which the policy denies`,
      cause,
    };
  }
  const forbidden = addresses.forbidden(address);
  if (forbidden !== undefined)
    return { allowed: false, reason: `${address} is ${forbidden}`, cause: { kind: "special-address" } };
  if (policy.kind === "open") return openPolicy;
  const { openNames, everything, ruled } = policy.matcher;
  if (everything && !ruled) return allowedBy(range ? `subnets.allow ${range.cidr.text}` : "allow *");
  if (range && !openNames && !everything && resolverPorts.includes(port) && !isAlone(range.cidr)) {
    const reason = "only names of the policy resolve, and only by the sandbox's own resolver";
    return { allowed: false, reason, cause: { kind: "other-resolver" } };
  }
  if (range) return allowedBy(`subnets.allow ${range.cidr.text}`);
  if (attempt.protocol === "tcp") return undefined;
  return bySubnetOnly(attempt, `datagrams are allowed by subnet only${everything ? ", as a domain has rules" : ""}`);
}

/** the verdict once it is known what the connection speaks; the name has been found to lead to its address */
export function judge(policy: Policy, attempt: Attempt, addresses: AddressRules): Verdict {
  const known = judgeAddress(policy, attempt, addresses);
  if (known) return known;
  if (attempt.name !== undefined) return judgeName(policy, attempt.name);
  if (policy.kind !== "custom" || !policy.matcher.everything)
    return bySubnetOnly(attempt, attempt.instead ?? "it names no host");
  const isRuled = (name: string) => hasRulesFor(policy, name);
  const claimed = attempt.claimed?.find(isRuled);
  if (claimed !== undefined) return aroundRules(`plain HTTP would go around the rules for "${claimed}": use https`);
  const here = attempt.isSsh ? undefined : attempt.leads?.find(isRuled);
  if (here === undefined) return allowedBy("allow *");
  const { address } = attempt;
  return aroundRules(`"${here}" leads to ${address} and has rules: only TLS with a name that leads there is allowed`);
}

function aroundRules(reason: string): Verdict {
  return { allowed: false, reason, cause: { kind: "around-rules" } };
}

/** whether requests to the host have to be inspected */
export function hasRulesFor(policy: Policy, name: string): boolean {
  return policy.kind === "custom" && (policy.matcher.name(name)?.rules.length ?? 0) > 0;
}

/** whether everything but what has rules may be reached, by name or not */
export function isOpenBesidesRules(policy: Policy): boolean {
  return policy.kind === "custom" && policy.matcher.everything;
}

export function judgeName(policy: Policy, name: string): Verdict {
  if (policy.kind === "unknown") return unknownPolicy;
  if (policy.kind === "open") return openPolicy;
  const domain = policy.matcher.name(name);
  if (domain) {
    const { rules } = domain;
    return { ...allowedBy(`allow ${domain.domain}`), ...(rules.length > 0 && { rules }) };
  }
  const reason = `the policy does not allow "${name}"`;
  return { allowed: false, reason, cause: { kind: "policy" }, missing: { allow: [name] } };
}

/** whether the resolver answers for the name */
export function judgeQuestion(policy: Policy, name: string, type: string): Verdict {
  if (policy.kind === "custom" && policy.matcher.openNames) return allowedBy("subnets.allow");
  return judgeName(policy, hostOfQuestion(name, type));
}

/** an address that stands for another is in the ranges of both, and in the one that denies before all */
function rangeOf(matcher: PolicyMatcher, address: string): ReturnType<PolicyMatcher["address"]> {
  const own = matcher.address(address);
  const embedded = embeddedIPv4(address);
  const other = embedded === undefined ? undefined : matcher.address(embedded);
  return other && !other.allowed ? other : own;
}

function bySubnetOnly({ address }: Attempt, why: string): Verdict {
  const range = `${address}/${address.includes(":") ? 128 : 32}`;
  const reason = `the policy does not allow ${address}: ${why}`;
  return { allowed: false, reason, cause: { kind: "by-subnet-only" }, missing: { subnets: { allow: [range] } } };
}
