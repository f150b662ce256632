/**
 * What a sandbox may reach. Matching is pure and lives here; the egress process enforces it. A deny CIDR beats an allow
 * CIDR, which beats a domain; a custom policy denies everything else.
 */

import { bytesOf, type Cidr, cidrOf, contains } from "./cidr.ts";

export type NetworkPolicy = { mode: "allow-all" } | { mode: "deny-all" } | CustomPolicy;

export interface CustomPolicy {
  mode: "custom";
  domains: DomainRule[];
  allowedCidrs: string[];
  deniedCidrs: string[];
}

/** A custom policy as a machine gets it: with decrypted secrets, and with the keys that its rules need. */
export interface CustomNetwork extends CustomPolicy {
  /** signs for the domains that have rules, inside this sandbox only */
  authority?: AuthoritySpec;
  identity?: ForwardIdentity;
}

/** What a certificate authority is derived from, each in hex. */
export interface AuthoritySpec {
  keyMaterial: string;
  serial: string;
}

/** A sandbox's identity for the servers that rules forward to. */
export interface ForwardIdentity {
  teamId: string;
  projectId: string;
  sandboxId: string;
  sandboxName: string;
  issuer: string;
  /** PEM of the key that signs tokens, and its id */
  key: string;
  keyId: string;
}

/** A domain, perhaps with wildcards, and the rules for requests to it. */
export interface DomainRule {
  domain: string;
  rules: RequestRule[];
}

export interface RequestRule {
  match?: RequestMatch;
  action: RuleAction;
}

export type RuleAction =
  /** header values are sealed: they are decrypted only where they are sent */
  | { kind: "set-headers"; headers: Record<string, string> }
  | { kind: "forward"; url: string }
  | { kind: "respond"; status: number; headers?: Record<string, string>; body?: string; contentType?: string };

export interface RequestMatch {
  path?: TextMatch;
  method?: string[];
  queryString?: PairMatch[];
  headers?: PairMatch[];
}

export interface PairMatch {
  key?: TextMatch;
  value?: TextMatch;
}

export type TextMatch = { exact: string } | { startsWith: string } | { regex: string };

export const allowAll: NetworkPolicy = { mode: "allow-all" };

/** the policy as it is stored: header values are encrypted, and only their names stay readable */
export function sealPolicy(policy: NetworkPolicy, seal: (text: string) => string): NetworkPolicy {
  return withHeaderValues(policy, seal);
}

/** the policy as it is enforced: with readable header values, so it is only kept in memory */
export function openPolicy(policy: NetworkPolicy, open: (sealed: string) => string): NetworkPolicy {
  return withHeaderValues(policy, open);
}

/** whether it equals deny-all: it has no domain and no allowed range */
export function allowsNothing(policy: NetworkPolicy): boolean {
  if (policy.mode !== "custom") return policy.mode === "deny-all";
  return policy.domains.length === 0 && policy.allowedCidrs.length === 0;
}

/** has "*" without rules: it reaches all that allow-all does by any protocol, except domains with rules */
export function isEverything(policy: CustomPolicy): boolean {
  return policy.domains.some(({ domain, rules }) => domain === "*" && rules.length === 0);
}

export function hasRules(policy: NetworkPolicy): boolean {
  return policy.mode === "custom" && policy.domains.some(({ rules }) => rules.length > 0);
}

/** whether a rule sends requests to a server that the policy names */
export function forwards(policy: CustomPolicy): boolean {
  return policy.domains.some(({ rules }) => rules.some(({ action }) => action.kind === "forward"));
}

/** A compiled custom policy, for fast matching. */
export interface PolicyMatcher {
  /** whether every name resolves: a policy of subnets alone says nothing about names */
  readonly openNames: boolean;
  /** see isEverything() */
  readonly everything: boolean;
  /** whether some domain has rules, so that the protocol of a connection must be known */
  readonly ruled: boolean;
  /** a range that denies the address, else the closest that allows it; undefined if only a name can allow it */
  address(address: string): { allowed: boolean; cidr: Cidr } | undefined;
  /** the closest domain that matches the name, with the rules of all that match, closest first */
  name(name: string): { domain: string; rules: readonly RequestRule[] } | undefined;
}

export function compilePolicy(policy: CustomPolicy): PolicyMatcher {
  const denied = policy.deniedCidrs.map(cidrOf);
  const allowed = policy.allowedCidrs.map(cidrOf).sort((a, b) => b.length - a.length);
  const exact = new Map(policy.domains.map((rule) => [rule.domain, rule]));
  const wild = policy.domains.filter(({ domain }) => domain.includes("*")).sort((a, b) => precision(b) - precision(a));
  return {
    openNames: policy.domains.length === 0,
    everything: isEverything(policy),
    ruled: hasRules(policy),
    address(address) {
      const bytes = bytesOf(address);
      if (!bytes) return undefined;
      const no = denied.find((cidr) => contains(cidr, bytes));
      if (no) return { allowed: false, cidr: no };
      const yes = allowed.find((cidr) => contains(cidr, bytes));
      return yes && { allowed: true, cidr: yes };
    },
    name(name) {
      const labels = name.split(".");
      const own = name.includes("*") ? undefined : exact.get(name);
      const matching = [...(own ? [own] : []), ...wild.filter(({ domain }) => matchesDomain(domain, labels))];
      const [closest] = matching;
      return closest && { domain: closest.domain, rules: matching.flatMap(({ rules }) => rules) };
    },
  };
}

/** a name in normal form: lower case, without the final dot; undefined if it cannot be a host name */
export function hostName(text: string): string | undefined {
  const name = text.toLowerCase().replace(/\.$/, "");
  return name.length <= 253 && /^[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*$/.test(name) ? name : undefined;
}

/** the host that a DNS question is about; an SRV question has "_service._protocol" before the host */
export function hostOfQuestion(name: string, type: string): string {
  return type === "SRV" ? name.replace(/^_[^.]+\._(tcp|udp|tls)\./, "") : name;
}

/** A "*" alone matches any name, at the front one label or more, and elsewhere exactly one label. */
function matchesDomain(pattern: string, labels: string[]): boolean {
  if (pattern === "*") return true;
  const wanted = pattern.split(".");
  const deep = wanted[0] === "*";
  if (deep ? labels.length < wanted.length : labels.length !== wanted.length) return false;
  const offset = labels.length - wanted.length;
  return wanted.every((label, index) => label === "*" || label === labels[index + offset]);
}

/** how specific a pattern is */
function precision({ domain }: DomainRule): number {
  const labels = domain.split(".");
  return labels.filter((label) => label !== "*").length * 1000 + labels.length;
}

function withHeaderValues(policy: NetworkPolicy, change: (value: string) => string): NetworkPolicy {
  if (policy.mode !== "custom") return policy;
  const changeAction = (action: RuleAction): RuleAction => {
    if (action.kind !== "set-headers") return action;
    const headers = Object.entries(action.headers).map(([name, value]) => [name, change(value)]);
    return { ...action, headers: Object.fromEntries(headers) };
  };
  const domains = policy.domains.map(({ domain, rules }) => ({
    domain,
    rules: rules.map((rule) => ({ ...rule, action: changeAction(rule.action) })),
  }));
  return { ...policy, domains };
}
