/**
 * What "no wider" means, compared with the code that decides about connections and names: with random policies, a
 * ceiling lets through everything that a narrower policy lets through.
 */

import { describe, expect, test } from "vitest";
import {
  allowsNothing,
  type CustomPolicy,
  type DomainRule,
  type NetworkPolicy,
} from "../../src/core/network/network-policy.ts";
import { isNoWider, isPatternWithin, withRulesOf } from "../../src/core/network/policy-width.ts";
import { type AddressRules, addressRules } from "../../src/egress/policy/addresses.ts";
import { type Attempt, customPolicy, judge, judgeQuestion, type Policy } from "../../src/egress/policy/policy.ts";

const names = ["a.test", "b.test", "x.a.test", "y.x.a.test", "x.b.test", "a.other", "x.a.other", "test"];
const patterns = [
  "*",
  "a.test",
  "b.test",
  "*.test",
  "*.a.test",
  "x.*.test",
  "*.*.test",
  "x.a.test",
  "*.other",
  "a.other",
];
const ranges = [
  ..."0.0.0.0/0 0.0.0.0/1 93.184.216.0/24 93.184.216.0/25 93.184.216.128/25 93.184.216.34/32 10.0.0.0/8".split(" "),
  ..."10.1.0.0/16 10.1.2.3/32 169.254.0.0/16 169.254.169.254/32 192.168.7.0/24 ::/0 2606:2800::/32".split(" "),
  ..."2606:2800:220::/48 2606:2800:220::1/128 fc00::/7 fd12::/16 64:ff9b::/96 64:ff9b::5db8:d822/128 2002::/16".split(
    " ",
  ),
];
const addresses = [
  ..."93.184.216.34 93.184.216.35 93.184.216.200 8.8.8.8 10.1.2.3 10.9.9.9 169.254.169.254 192.168.7.7".split(" "),
  ..."2606:2800:220::1 2606:2800:1::1 fd12::1 64:ff9b::5db8:d822 64:ff9b::808:808 2002:5db8:d822::1".split(" "),
];

/** what an operator may have opened for all sandboxes: nothing, or some special addresses */
const operators = [[], ["10.0.0.0/8", "169.254.169.254/32", "fd12::/16"]].map((allow): AddressRules => {
  const rules = addressRules({ allow, hostAddresses: () => ["93.184.217.2"] });
  const known = new Map(addresses.map((address) => [address, rules.forbidden(address)]));
  return { forbidden: (address) => (known.has(address) ? known.get(address) : rules.forbidden(address)) };
});
const rules = operators[0] as AddressRules; // the first of two
const injection: DomainRule["rules"] = [{ action: { kind: "set-headers", headers: { a: "b" } } }];
const forward: DomainRule["rules"] = [{ action: { kind: "forward", url: "https://proxy.test" } }];

describe("a policy that is no wider", () => {
  test("lets nothing through that its ceiling does not", () => {
    const random = generator(7);
    const yes = { all: 0, everything: 0, ruled: 0, denied: 0 };
    for (let round = 0; round < 2_000; round++) {
      const ceiling = randomPolicy(random);
      // Half of them begin as the ceiling, so that many of those that pass are almost too wide.
      const policy = random() < 0.5 ? randomPolicy(random) : changed(random, ceiling);
      if (!isNoWider(policy, ceiling)) continue;
      if (policy.mode === "custom" && ceiling.mode === "custom") {
        yes.all++;
        if (ceiling.domains.some(({ domain }) => domain === "*")) yes.everything++;
        if (ceiling.domains.some((each) => each.rules.length > 0)) yes.ruled++;
        if (ceiling.deniedCidrs.length > 0) yes.denied++;
      }
      for (const operator of operators) {
        const open = reach(ceiling, operator);
        const beyond = [...reach(policy, operator)].filter(([way, rules]) => {
          const held = open.get(way);
          return held === undefined || (held !== "[]" && held !== rules);
        });
        expect(beyond, JSON.stringify({ policy, ceiling })).toEqual([]);
      }
    }
    expect(Math.min(...Object.values(yes)), JSON.stringify(yes)).toBeGreaterThan(60);
  });

  test("is each policy itself, also with one domain less, one range less or one more denied range", () => {
    const random = generator(11);
    for (let round = 0; round < 1500; round++) {
      const drawn = randomCustom(random);
      const policy = { ...drawn, domains: plain(...drawn.domains.map(({ domain }) => domain)) };
      const { domains, allowedCidrs, deniedCidrs } = policy;
      expect(isNoWider(policy, policy)).toBe(true);
      if (domains.length !== 1) expect(isNoWider({ ...policy, domains: domains.slice(1) }, policy)).toBe(true);
      expect(isNoWider({ ...policy, allowedCidrs: allowedCidrs.slice(1) }, policy)).toBe(true);
      expect(isNoWider({ ...policy, deniedCidrs: [...deniedCidrs, "8.8.0.0/16"] }, policy)).toBe(true);
      expect(isNoWider({ mode: "deny-all" }, policy)).toBe(true);
      expect(isNoWider({ mode: "allow-all" }, policy)).toBe(false);
    }
  });

  test.each<[string, Partial<CustomPolicy>, Partial<CustomPolicy>, boolean]>([
    [
      "two halves cover the whole",
      { allowedCidrs: ["8.8.8.0/24"] },
      { allowedCidrs: ["8.8.8.0/25", "8.8.8.128/25"] },
      true,
    ],
    [
      "what it denies itself needs no cover",
      { allowedCidrs: ["8.8.8.0/24"], deniedCidrs: ["8.8.8.128/25"] },
      { allowedCidrs: ["8.8.8.0/25"] },
      true,
    ],
    ["a private range in a wider one", { allowedCidrs: ["10.1.0.0/16"] }, { allowedCidrs: ["0.0.0.0/0"] }, true],
    ["a private range beside another", { allowedCidrs: ["10.1.0.0/16"] }, { allowedCidrs: ["10.2.0.0/16"] }, false],
    ["everything beside names", { domains: plain("*") }, { domains: plain("a.test", "*.test") }, false],
    ["everything beside ranges", { domains: plain("*") }, { allowedCidrs: ["0.0.0.0/0", "::/0"] }, false],
    ["a name below everything", { domains: plain("a.test") }, { domains: plain("*") }, true],
    ["a range below everything", { allowedCidrs: ["8.8.8.8/32"] }, { domains: plain("*") }, true],
    [
      "a range below everything with rules, which the range would go around",
      { allowedCidrs: ["8.8.8.8/32"] },
      { domains: [...plain("*"), { domain: "a.test", rules: injection }] },
      false,
    ],
    [
      "everything without rules below everything with rules",
      { domains: plain("*") },
      { domains: [{ domain: "*", rules: injection }] },
      false,
    ],
    [
      "a rule that a second entry of its domain takes back",
      { domains: [{ domain: "a.test", rules: injection }, ...plain("a.test")] },
      { domains: [{ domain: "a.test", rules: injection }] },
      false,
    ],
    [
      "what the ceiling denies",
      { domains: plain("a.test") },
      { domains: plain("a.test"), deniedCidrs: ["8.0.0.0/8"] },
      false,
    ],
    [
      "ranges alone let every name resolve",
      { allowedCidrs: ["8.8.8.0/24"] },
      { allowedCidrs: ["8.8.8.0/24"], domains: plain("*.test") },
      false,
    ],
    [
      "one address beside names is a resolver",
      { allowedCidrs: ["8.8.8.8/32"], domains: plain("a.test") },
      { allowedCidrs: ["8.8.8.0/24"], domains: plain("a.test") },
      false,
    ],
    [
      "a rule of the ceiling's is dropped",
      { domains: plain("a.test") },
      { domains: [{ domain: "a.test", rules: injection }] },
      false,
    ],
    [
      "a rule of the ceiling's is kept",
      { domains: [{ domain: "a.test", rules: injection }] },
      { domains: [{ domain: "a.test", rules: injection }, ...plain("b.test")] },
      true,
    ],
    [
      "a rule of a wider pattern is dropped",
      { domains: plain("x.a.test") },
      { domains: [{ domain: "*.a.test", rules: injection }] },
      false,
    ],
    ["headers of its own", { domains: [{ domain: "a.test", rules: injection }] }, { domains: plain("a.test") }, true],
    [
      "forwarding of its own",
      { domains: [{ domain: "a.test", rules: forward }] },
      { domains: plain("a.test", "proxy.test") },
      false,
    ],
    [
      "forwarding that is the ceiling's",
      { domains: [{ domain: "a.test", rules: forward }] },
      { domains: [{ domain: "a.test", rules: forward }] },
      true,
    ],
  ])("%s", (_, policy, ceiling, expected) => {
    expect(isNoWider(custom(policy), custom(ceiling))).toBe(expected);
  });

  test("forwards nothing under allow-all, and opens no special address that the operator has not opened", () => {
    const all: NetworkPolicy = { mode: "allow-all" };
    expect(isNoWider(custom({ allowedCidrs: ["8.8.8.8/32"], domains: plain("*") }), all)).toBe(true);
    for (const address of ["169.254.169.254", "10.1.0.1", "fd00:ec2::254", "168.63.129.16", "127.0.0.1"]) {
      const policy = customPolicy(custom({ allowedCidrs: [address], domains: plain("*") }));
      expect(judge(policy, { address, port: 80, protocol: "tcp" }, rules).allowed).toBe(false);
    }
    expect(isNoWider(custom({ domains: [{ domain: "a.test", rules: forward }] }), all)).toBe(false);
  });
});

test("a pattern is within another exactly if each of its names is", () => {
  const many = ["test", "a", "b.a", "a.test", "b.test", "a.b.test", "b.b.test", "a.a.a.test", "c.b.a.other", "other"];
  const matches = (pattern: string, name: string) =>
    judge(customPolicy(custom({ domains: plain(pattern) })), attempt(name), rules).allowed;
  for (const inner of patterns) {
    for (const outer of patterns) {
      if (!isPatternWithin(inner, outer)) continue;
      for (const name of [...names, ...many].filter((each) => matches(inner, each))) {
        expect(matches(outer, name), `${name} of ${inner} in ${outer}`).toBe(true);
      }
    }
  }
  expect(isPatternWithin("*.a.test", "*.test")).toBe(true);
  expect(isPatternWithin("*.test", "*.a.test")).toBe(false);
});

test("rules stay with the domains that are kept", () => {
  const current = custom({ domains: [{ domain: "a.test", rules: injection }, ...plain("b.test")] });
  const kept = withRulesOf(custom({ domains: plain("a.test") }), current);
  expect(kept).toEqual(custom({ domains: [{ domain: "a.test", rules: injection }] }));
  expect(isNoWider(kept, current)).toBe(true);
});

const reached = new Map<string, Map<string, string>>();

/** every attempt that the code of the egress process lets through, with the rules that apply to it */
function reach(network: NetworkPolicy, operator: AddressRules): Map<string, string> {
  const key = JSON.stringify([network, operators.indexOf(operator)]);
  const known = reached.get(key);
  if (known) return known;
  const ways = new Map<string, string>();
  reached.set(key, ways);
  // One that allows nothing is deny-all to the machine (core/networks.ts).
  if (allowsNothing(network)) return ways;
  const policy: Policy = network.mode === "custom" ? customPolicy(network) : { kind: "open" };
  for (const address of addresses) {
    for (const attempt of wishes) {
      const verdict = judge(policy, { address, ...attempt }, operator);
      if (verdict.allowed) ways.set(`${address} ${JSON.stringify(attempt)}`, JSON.stringify(verdict.rules ?? []));
    }
  }
  for (const name of names) if (judgeQuestion(policy, name, "A").allowed) ways.set(`? ${name}`, "[]");
  return ways;
}

/** a datagram, a protocol that names no host, plain HTTP and TLS; TLS to a resolver's port is like any other */
const wishes: Omit<Attempt, "address">[] = [
  ...[53, 443, 853].map((port) => ({ port, protocol: "udp" as const })),
  ...[22, 53, 853].map((port) => ({ port, protocol: "tcp" as const })),
  ...["a.test", "x.b.test", "a.other"].map((claimed) => ({ port: 80, protocol: "tcp" as const, claimed: [claimed] })),
  ...names.map((name) => ({ port: 443, protocol: "tcp" as const, name })),
];

function attempt(name: string) {
  return { address: "8.8.8.8", port: 443, protocol: "tcp" as const, name };
}

function custom(parts: Partial<CustomPolicy>): CustomPolicy {
  return { mode: "custom", domains: [], allowedCidrs: [], deniedCidrs: [], ...parts };
}

function plain(...domains: string[]): DomainRule[] {
  return domains.map((domain) => ({ domain, rules: [] }));
}

function randomPolicy(random: () => number): NetworkPolicy {
  const kind = random();
  if (kind < 0.05) return { mode: "deny-all" };
  return kind < 0.1 ? { mode: "allow-all" } : randomCustom(random);
}

function randomCustom(random: () => number): CustomPolicy {
  return custom({
    domains: someDomains(random, 3),
    allowedCidrs: some(random, ranges, 2),
    deniedCidrs: random() < 0.6 ? [] : some(random, ranges, 2),
  });
}

/** the same policy with parts left out, and perhaps others added */
function changed(random: () => number, policy: NetworkPolicy): NetworkPolicy {
  if (policy.mode !== "custom") return policy;
  const part = <T>(all: T[]) => all.filter(() => random() < 0.8);
  const more = <T>(all: T[]) => (random() < 0.2 ? all : []);
  const shuffled = random() < 0.1 ? policy.domains.toReversed() : policy.domains;
  return custom({
    domains: [...part(shuffled), ...more(someDomains(random, 1))],
    allowedCidrs: [...part(policy.allowedCidrs), ...more(some(random, ranges, 1))],
    deniedCidrs: [...part(policy.deniedCidrs), ...more(some(random, ranges, 1))],
  });
}

function someDomains(random: () => number, most: number): DomainRule[] {
  const one = (domain: string) => ({ domain, rules: random() < 0.25 ? some(random, ruleKinds, 2) : [] });
  return [...new Set(some(random, patterns, most))].map(one);
}

function some<T>(random: () => number, all: readonly T[], most: number): T[] {
  return Array.from({ length: Math.floor(random() * (most + 1)) }, () => all[Math.floor(random() * all.length)] as T);
}

const ruleKinds: DomainRule["rules"] = [
  { action: { kind: "set-headers", headers: { a: "b" } } },
  { action: { kind: "respond", status: 403 } },
  { match: { method: ["POST"] }, action: { kind: "respond", status: 405 } },
];

/** the same numbers each time (mulberry32) */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
