/**
 * What a sandbox may reach. Matching is pure and lives here; enforcing is the egress process's part.
 * A deny CIDR beats an allow CIDR beats a domain; a custom policy denies whatever it does not name.
 */

import { bytesOf, type Cidr, cidrOf, contains } from "./cidr.ts";

export type NetworkPolicy = { mode: "allow-all" } | { mode: "deny-all" } | CustomPolicy;

export interface CustomPolicy {
  mode: "custom";
  domains: DomainRule[];
  allowedCidrs: string[];
  deniedCidrs: string[];
}

/** A custom policy as a machine is given it: secrets are in the clear, and what rules need is beside them. */
export interface CustomNetwork extends CustomPolicy {
  /** signs for the domains that have rules, inside this sandbox only */
  authority?: AuthoritySpec;
  identity?: ForwardIdentity;
}

/** What a certificate authority is made of where it is needed, each in hex. */
export interface AuthoritySpec {
  keyMaterial: string;
  serial: string;
}

/** Who a sandbox is, for the servers that rules forward to. */
export interface ForwardIdentity {
  teamId: string;
  projectId: string;
  sandboxId: string;
  sandboxName: string;
  issuer: string;
  /** PEM of the key that signs tokens, and its name */
  key: string;
  keyId: string;
}

/** A domain, perhaps with wildcards, and what is done to requests to it. */
export interface DomainRule {
  domain: string;
  rules: RequestRule[];
}

export interface RequestRule {
  match?: RequestMatch;
  action: RuleAction;
}

export type RuleAction =
  /** header values are sealed: secrets are opened only where they are sent */
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

/** the policy as it is stored: the values of headers are secrets, and only their names stay readable */
export function sealPolicy(policy: NetworkPolicy, seal: (text: string) => string): NetworkPolicy {
  return withHeaderValues(policy, seal);
}

/** the policy as it is enforced: header values are readable in it, so it is kept nowhere but in memory */
export function openPolicy(policy: NetworkPolicy, open: (sealed: string) => string): NetworkPolicy {
  return withHeaderValues(policy, open);
}

/** whether it comes to the same as deny-all: it may forbid, but allows nothing */
export function allowsNothing(policy: NetworkPolicy): boolean {
  if (policy.mode !== "custom") return policy.mode === "deny-all";
  return policy.domains.length === 0 && policy.allowedCidrs.length === 0;
}

/** "*" without rules: everything that allow-all would reach, whatever is spoken, but for what other domains have rules for */
export function isEverything(policy: CustomPolicy): boolean {
  return policy.domains.some(({ domain, rules }) => domain === "*" && rules.length === 0);
}

export function hasRules(policy: NetworkPolicy): boolean {
  return policy.mode === "custom" && policy.domains.some(({ rules }) => rules.length > 0);
}

/** A custom policy made ready to be asked often. */
export interface PolicyMatcher {
  /** every name resolves: a policy of nothing but subnets says nothing about names */
  readonly openNames: boolean;
  /** see isEverything() */
  readonly everything: boolean;
  /** some domain has rules, so that what is spoken has to be known */
  readonly ruled: boolean;
  /** a range that denies the address, else the closest that allows it; undefined when only a name can allow it */
  address(address: string): { allowed: boolean; cidr: Cidr } | undefined;
  /** the closest domain that allows the name, with the rules of all that do, those of the closest first */
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

/** a name as it is compared: lower case and without the dot at its end; undefined when it cannot be a host's */
export function hostName(text: string): string | undefined {
  const name = text.toLowerCase().replace(/\.$/, "");
  return name.length <= 253 && /^[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*$/.test(name) ? name : undefined;
}

/** whom a question for a name is about; "_service._protocol" before it asks for a service of the host (SRV) */
export function hostOfQuestion(name: string, type: string): string {
  return type === "SRV" ? name.replace(/^_[^.]+\._(tcp|udp|tls)\./, "") : name;
}

/** A "*" at the front stands for one label or more, alone for any name at all, and elsewhere for exactly one label. */
function matchesDomain(pattern: string, labels: string[]): boolean {
  if (pattern === "*") return true;
  const wanted = pattern.split(".");
  const deep = wanted[0] === "*";
  if (deep ? labels.length < wanted.length : labels.length !== wanted.length) return false;
  const offset = labels.length - wanted.length;
  return wanted.every((label, index) => label === "*" || label === labels[index + offset]);
}

/** how much of a name a pattern says */
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
