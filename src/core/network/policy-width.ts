/**
 * Whether one network policy reaches no more than another. This decides whether a limited caller may set it.
 *
 * The answer is safe rather than complete. "Yes" means that the ceiling allows everything that the policy allows, by
 * address or by name, and with the same rules. Some policies that are in truth no wider get a "no", such as a domain
 * that only several patterns of the ceiling cover together.
 *
 *   addresses  every range that the policy allows lies within the ceiling's, except for what the policy itself denies;
 *              and the policy cannot reach what the ceiling denies. Private and other special addresses are no
 *              exception: the operator opens them for all policies or for none (egress/addresses.ts)
 *   names      every pattern lies within one of the ceiling's; a policy of ranges alone resolves every name, so it is
 *              no wider only than another such policy, or than "*"
 *   "*"        without rules it opens every address too, for any protocol: only a ceiling with the same entry covers
 *              it, and such a ceiling covers every range unless it has rules
 *   rules      a rule of the ceiling may block requests, so a policy with its domain must have it too. A rule that
 *              forwards leads anywhere, and is wider than any ceiling without the same rule
 */

import { type Cidr, cidrOf, covers, embeddings, isAlone } from "./cidr.ts";
import {
  allowsNothing,
  type CustomPolicy,
  type DomainRule,
  hasRules,
  isEverything,
  type NetworkPolicy,
} from "./network-policy.ts";

export function isNoWider(policy: NetworkPolicy, ceiling: NetworkPolicy): boolean {
  if (allowsNothing(policy)) return true;
  if (policy.mode !== "custom") return ceiling.mode === "allow-all";
  if (allowsNothing(ceiling)) return false;
  if (!policy.domains.every(({ domain, rules }) => mayForward(domain, rules, ceiling))) return false;
  if (ceiling.mode !== "custom") return true;
  const allowed = policy.allowedCidrs.map(cidrOf);
  const denied = policy.deniedCidrs.map(cidrOf);
  const named = policy.domains.length > 0;
  const outer = ceiling.allowedCidrs.map(cidrOf);
  const isOpen = isEverything(ceiling) && !hasRules(ceiling);
  return (
    allowed.every((range) => isOpen || isCovered(range, denied) || isWithin(range, outer, denied, named)) &&
    ceiling.deniedCidrs.map(cidrOf).every((range) => isOutOfReach(range, { named, allowed, denied })) &&
    namesAreNoWider(policy, ceiling)
  );
}

/** the same policy, with the other policy's rules for its domains that have none */
export function withRulesOf(policy: NetworkPolicy, other: NetworkPolicy): NetworkPolicy {
  if (policy.mode !== "custom" || other.mode !== "custom") return policy;
  const rulesOf = (domain: string) => other.domains.find((each) => each.domain === domain)?.rules ?? [];
  const domains = policy.domains.map((each) =>
    each.rules.length > 0 ? each : { ...each, rules: rulesOf(each.domain) },
  );
  return { ...policy, domains };
}

function mayForward(domain: string, rules: DomainRule["rules"], ceiling: NetworkPolicy): boolean {
  if (rules.every(({ action }) => action.kind !== "forward")) return true;
  return ceiling.mode === "custom" && ceiling.domains.some((each) => isSame(each, { domain, rules }));
}

function isWithin(range: Cidr, outer: Cidr[], denied: Cidr[], named: boolean): boolean {
  if (outer.some((each) => isEqual(each, range))) return true;
  // Beside domains, a range of one address also permits a resolver there; a wider range does not.
  if (named && isAlone(range)) return false;
  return isCovered(range, [...outer, ...denied]);
}

/** whether the policy reaches no address of a range that the ceiling denies */
function isOutOfReach(
  range: Cidr,
  { named, allowed, denied }: { named: boolean; allowed: Cidr[]; denied: Cidr[] },
): boolean {
  if (named || allowed.some(mayTranslate)) return isCovered(range, denied);
  const common = allowed.flatMap((each) => (covers(each, range) ? [range] : covers(range, each) ? [each] : []));
  return common.every((each) => isCovered(each, denied));
}

function namesAreNoWider(policy: CustomPolicy, ceiling: CustomPolicy): boolean {
  // Without domains every name resolves, and DNS questions can carry data out.
  if (policy.domains.length === 0) return ceiling.domains.length === 0 || isEverything(ceiling);
  if (isEverything(policy) && !isEverything(ceiling)) return false;
  if (namesTwice(policy) || namesTwice(ceiling)) return false;
  const ruled = ceiling.domains.filter(({ rules }) => rules.length > 0);
  const kept = policy.domains.filter((own) => ruled.some((each) => isSame(each, own)));
  const inOrder = ruled.filter((each) => kept.some((own) => isSame(own, each)));
  // Of equally specific patterns, the rules of the first come first.
  if (!kept.every((own, index) => own.domain === inOrder[index]?.domain)) return false;
  return policy.domains.every((own) => {
    if (!ceiling.domains.some(({ domain }) => isPatternWithin(own.domain, domain))) return false;
    const concerned = ruled.filter(({ domain }) => mayOverlap(own.domain, domain));
    if (concerned.some((each) => !kept.some((other) => isSame(other, each)))) return false;
    // A rule of its own could answer before the ceiling's rule.
    return concerned.length === 0 || own.rules.length === 0 || kept.includes(own);
  });
}

/** whether a domain has two entries, of which only one would count */
function namesTwice({ domains }: CustomPolicy): boolean {
  return new Set(domains.map(({ domain }) => domain)).size < domains.length;
}

/**
 * whether the outer pattern matches every name of the inner; a "*" in front is one label or more, elsewhere exactly one
 */
export function isPatternWithin(inner: string, outer: string): boolean {
  if (outer === "*" || inner === outer) return true;
  if (inner === "*") return false;
  const [own, other] = [inner.split("."), outer.split(".")];
  const deep = other[0] === "*";
  if (deep ? own.length < other.length : own.length !== other.length || own[0] === "*") return false;
  const wanted = deep ? other.slice(1) : other;
  const tail = own.slice(own.length - wanted.length);
  return wanted.every((label, index) => label === "*" || label === tail[index]);
}

/** false only if no name can match both patterns */
function mayOverlap(one: string, other: string): boolean {
  const [left, right] = [one.split("."), other.split(".")].map((labels) => ({
    labels: labels[0] === "*" ? labels.slice(1) : labels,
    deep: labels[0] === "*",
  })) as [{ labels: string[]; deep: boolean }, { labels: string[]; deep: boolean }]; // two in, two out
  if (!left.deep && !right.deep && left.labels.length !== right.labels.length) return false;
  if (left.deep !== right.deep) {
    const [open, closed] = left.deep ? [left, right] : [right, left];
    if (closed.labels.length <= open.labels.length) return false;
  }
  const common = Math.min(left.labels.length, right.labels.length);
  const tails = [left, right].map(({ labels }) => labels.slice(labels.length - common));
  return (tails[0] ?? []).every((label, at) => {
    const opposite = tails[1]?.[at];
    return label === "*" || opposite === "*" || label === opposite;
  });
}

/** whether the others together contain every address of the range */
function isCovered(range: Cidr, by: Cidr[]): boolean {
  if (by.some((each) => covers(each, range))) return true;
  const inside = by.filter((each) => covers(range, each));
  if (inside.length === 0) return false;
  return halvesOf(range).every((half) => isCovered(half, inside));
}

function halvesOf({ text, bytes, length }: Cidr): Cidr[] {
  const [at, bit] = [length >> 3, 0x80 >> (length & 7)];
  const lower = bytes.map((byte, index) => (index === at ? byte & ~bit : byte));
  const upper = bytes.map((byte, index) => (index === at ? byte | bit : byte));
  return [lower, upper].map((half) => ({ text, bytes: half, length: length + 1 }));
}

/** whether addresses of this range can stand for IPv4 addresses */
function mayTranslate(range: Cidr): boolean {
  return translators.some((each) => covers(each, range) || covers(range, each));
}

/** the IPv6 prefixes alone: addresses in IPv4-mapped form are matched as IPv4 */
const translators = embeddings.map(({ prefix }) => cidrOf(prefix)).filter(({ bytes }) => bytes.length === 16);

function isEqual(one: Cidr, other: Cidr): boolean {
  return covers(one, other) && covers(other, one);
}

function isSame(one: DomainRule, other: DomainRule): boolean {
  return one.domain === other.domain && JSON.stringify(one.rules) === JSON.stringify(other.rules);
}
