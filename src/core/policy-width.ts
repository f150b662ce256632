/**
 * Whether one network policy reaches no more than another: what decides if a caller with limits may set it.
 *
 * The answer is safe rather than complete. "Yes" means that whatever the policy lets through, by address or by name, the
 * ceiling lets through as well; some policies that are no wider in truth get a "no", such as a domain that only several
 * patterns of the ceiling cover together.
 *
 *   addresses  every range that the policy allows lies within the ceiling's, apart from what the policy denies itself;
 *              and whatever the ceiling denies, the policy cannot reach
 *   special    a private or link-local range opens only by being named, so that a wider range of the ceiling does not
 *              cover it: the ceiling has to name it too
 *   names      every pattern lies within one of the ceiling's; a policy of ranges only lets every name resolve, and is
 *              no wider only than another such
 *   rules      a rule of the ceiling may be what keeps requests back: who keeps its domain keeps the rule. Rules that
 *              forward lead anywhere, and are wider than any ceiling that does not have the same one
 */

import { type Cidr, covers, parseCidr } from "./cidr.ts";
import { SandkeepError } from "./errors.ts";
import { allowsNothing, type CustomPolicy, type DomainRule, type NetworkPolicy } from "./network-policy.ts";

export function isNoWider(policy: NetworkPolicy, ceiling: NetworkPolicy): boolean {
  if (allowsNothing(policy)) return true;
  if (policy.mode !== "custom") return ceiling.mode === "allow-all";
  if (allowsNothing(ceiling)) return false;
  if (!policy.domains.every(({ domain, rules }) => mayForward(domain, rules, ceiling))) return false;
  const allowed = policy.allowedCidrs.map(cidrOf);
  const denied = policy.deniedCidrs.map(cidrOf);
  const named = policy.domains.length > 0;
  const isShut = (range: Cidr) => isCovered(range, denied);
  if (ceiling.mode !== "custom") return allowed.every((range) => !isSpecial(range) || isShut(range));
  return (
    allowed.every((range) => isShut(range) || isWithin(range, ceiling.allowedCidrs.map(cidrOf), denied, named)) &&
    ceiling.deniedCidrs.map(cidrOf).every((range) => isOutOfReach(range, { named, allowed, denied })) &&
    namesAreNoWider(policy, ceiling)
  );
}

/** the same policy, in which domains that the other one has rules for keep these rules */
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
  // Beside domains, a range of one address opens a resolver there, which a wider one does not.
  if (named && range.length === range.bytes.length * 8) return false;
  if (isSpecial(range)) return outer.some((each) => covers(each, range) && isPrivate(each));
  return isCovered(range, [...outer, ...denied]);
}

/** whether the policy cannot get to any address of a range that the ceiling denies */
function isOutOfReach(
  range: Cidr,
  { named, allowed, denied }: { named: boolean; allowed: Cidr[]; denied: Cidr[] },
): boolean {
  if (named || allowed.some(mayTranslate)) return isCovered(range, denied);
  const common = allowed.flatMap((each) => (covers(each, range) ? [range] : covers(range, each) ? [each] : []));
  return common.every((each) => isCovered(each, denied));
}

function namesAreNoWider(policy: CustomPolicy, ceiling: CustomPolicy): boolean {
  // Without domains every name resolves, and what a question carries gets out.
  if (policy.domains.length === 0) {
    return ceiling.domains.length === 0;
  }
  const ruled = ceiling.domains.filter(({ rules }) => rules.length > 0);
  return policy.domains.every((own) => {
    if (!ceiling.domains.some(({ domain }) => isPatternWithin(own.domain, domain))) return false;
    const concerned = ruled.filter(({ domain }) => mayOverlap(own.domain, domain));
    if (concerned.some((each) => !policy.domains.some((kept) => isSame(kept, each)))) return false;
    // A rule of its own could answer before the ceiling's does.
    return concerned.length === 0 || own.rules.length === 0 || ruled.some((each) => isSame(each, own));
  });
}

/** whether every name of one pattern is one of the other; "*" in front is one label or more, elsewhere exactly one */
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

/** false only where no name can be one of both patterns */
function mayOverlap(one: string, other: string): boolean {
  const [left, right] = [one.split("."), other.split(".")].map((labels) => ({
    labels: labels[0] === "*" ? labels.slice(1) : labels,
    deep: labels[0] === "*",
  })) as [{ labels: string[]; deep: boolean }, { labels: string[]; deep: boolean }]; // of two comes two
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

/** whether every address of the range is in one of the others, if only in several together */
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

/** ranges whose addresses open by being named; those of private networks by any range within them */
const privateRanges = "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 fc00::/7 fec0::/10".split(" ");
const otherRanges = [
  ..."0.0.0.0/8 127.0.0.0/8 169.254.0.0/16 168.63.129.16/32 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24".split(" "),
  ..."198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3 ::/3 4000::/2 8000::/1".split(" "),
  ..."2001::/23 2001:db8::/32 2002::/16 3fff::/20".split(" "),
];
const privateCidrs = privateRanges.map(cidrOf);
const specialCidrs = [...privateCidrs, ...otherRanges.map(cidrOf)];

function isSpecial(range: Cidr): boolean {
  return specialCidrs.some((each) => covers(each, range));
}

/** whether IPv4 addresses may be reached by addresses of this range, in their IPv6 form */
function mayTranslate(range: Cidr): boolean {
  return translators.some((each) => covers(each, range) || covers(range, each));
}

const translators = ["::/3", "2002::/16"].map(cidrOf);

function isPrivate(range: Cidr): boolean {
  return privateCidrs.some((each) => covers(each, range));
}

function isEqual(one: Cidr, other: Cidr): boolean {
  return covers(one, other) && covers(other, one);
}

function isSame(one: DomainRule, other: DomainRule): boolean {
  return one.domain === other.domain && JSON.stringify(one.rules) === JSON.stringify(other.rules);
}

function cidrOf(text: string): Cidr {
  const cidr = parseCidr(text);
  if (!cidr) throw new SandkeepError("invalid", `Cannot use the subnet "${text}": it is not in CIDR notation`);
  return cidr;
}
