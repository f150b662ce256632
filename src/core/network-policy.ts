/**
 * What a sandbox may reach. Matching is pure and lives here; enforcing is the egress process's part.
 * A deny CIDR beats an allow CIDR beats a domain; a custom policy denies whatever it does not name.
 */

export type NetworkPolicy = { mode: "allow-all" } | { mode: "deny-all" } | CustomPolicy;

export interface CustomPolicy {
  mode: "custom";
  domains: DomainRule[];
  allowedCidrs: string[];
  deniedCidrs: string[];
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
  if (policy.mode !== "custom") return policy;
  const sealAction = (action: RuleAction): RuleAction => {
    if (action.kind !== "set-headers") return action;
    const headers = Object.entries(action.headers).map(([name, value]) => [name, seal(value)]);
    return { ...action, headers: Object.fromEntries(headers) };
  };
  const domains = policy.domains.map(({ domain, rules }) => ({
    domain,
    rules: rules.map((rule) => ({ ...rule, action: sealAction(rule.action) })),
  }));
  return { ...policy, domains };
}

/** what the kernel enforces of a policy; one that names domains lets nothing through until the egress process serves it */
export function networkMode(policy: NetworkPolicy): "allow-all" | "deny-all" {
  return policy.mode === "allow-all" ? "allow-all" : "deny-all";
}
