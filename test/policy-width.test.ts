/**
 * What "no wider" means, held against the code that decides about connections and names: with random policies, whatever a
 * narrower one lets through, its ceiling lets through too.
 */

import { describe, expect, test } from "vitest";
import type { CustomPolicy, DomainRule, NetworkPolicy } from "../src/core/network-policy.ts";
import { isNoWider, isPatternWithin, withRulesOf } from "../src/core/policy-width.ts";
import { addressRules } from "../src/egress/addresses.ts";
import { customPolicy, judge, judgeQuestion, type Policy } from "../src/egress/policy.ts";

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

const rules = addressRules({ allow: [], hostAddresses: () => ["93.184.217.2"] });
const injection: DomainRule["rules"] = [{ action: { kind: "set-headers", headers: { a: "b" } } }];
const forward: DomainRule["rules"] = [{ action: { kind: "forward", url: "https://proxy.test" } }];

describe("a policy that is no wider", () => {
  test("lets nothing through that its ceiling does not", () => {
    const random = generator(7);
    let yes = 0;
    for (let round = 0; round < 10_000; round++) {
      const [policy, ceiling] = [randomPolicy(random), randomPolicy(random)];
      if (!isNoWider(policy, ceiling)) continue;
      if (policy.mode === "custom" && ceiling.mode === "custom") yes++;
      const open = new Set(reach(ceiling));
      const beyond = reach(policy).filter((way) => !open.has(way));
      expect(beyond, JSON.stringify({ policy, ceiling })).toEqual([]);
    }
    expect(yes).toBeGreaterThan(150);
  });

  test("is every policy to itself, with one domain less, with one range less and with one more denied", () => {
    const random = generator(11);
    for (let round = 0; round < 3000; round++) {
      const policy = randomCustom(random);
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
    ["a wide range names nothing private", { allowedCidrs: ["10.1.0.0/16"] }, { allowedCidrs: ["0.0.0.0/0"] }, false],
    ["a private range names what is in it", { allowedCidrs: ["10.1.0.0/16"] }, { allowedCidrs: ["10.0.0.0/8"] }, true],
    [
      "the metadata service by itself",
      { allowedCidrs: ["169.254.169.254/32"] },
      { allowedCidrs: ["169.254.0.0/16"] },
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
      { allowedCidrs: ["8.8.8.0/24"], domains: plain("*") },
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

  test("names nothing private under allow-all, and forwards nothing", () => {
    const all: NetworkPolicy = { mode: "allow-all" };
    expect(isNoWider(custom({ allowedCidrs: ["8.8.8.8/32"], domains: plain("*") }), all)).toBe(true);
    for (const range of [
      "169.254.169.254/32",
      "10.1.0.0/16",
      "fd00:ec2::254/128",
      "168.63.129.16/32",
      "127.0.0.1/32",
    ]) {
      expect(isNoWider(custom({ allowedCidrs: [range] }), all)).toBe(false);
    }
    expect(isNoWider(custom({ domains: [{ domain: "a.test", rules: forward }] }), all)).toBe(false);
  });
});

test("a pattern is within another exactly when each of its names is", () => {
  const many = ["test", "a", "b.a", "a.test", "b.test", "a.b.test", "b.b.test", "a.a.a.test", "c.b.a.other", "other"];
  const matches = (pattern: string, name: string) =>
    judge(customPolicy(custom({ domains: plain(pattern) })), wish(name), rules).allowed;
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

/** every way through that the code of the egress process finds, of those that are tried */
function reach(network: NetworkPolicy): string[] {
  if (network.mode === "deny-all") return [];
  const policy: Policy = network.mode === "allow-all" ? { kind: "open" } : customPolicy(network);
  // One that allows nothing is deny-all to the machine (core/networks.ts).
  if (network.mode === "custom" && network.domains.length + network.allowedCidrs.length === 0) return [];
  const connections = addresses.flatMap((address) =>
    [53, 443].flatMap((port) =>
      // TLS to a name that is allowed is no question for a resolver, whichever port it goes to.
      [undefined, ...(port === 53 ? [] : names)].flatMap((name) => {
        const { allowed } = judge(policy, { address, port, protocol: "tcp", ...(name && { name }) }, rules);
        return allowed ? [`${address} ${port} ${name}`] : [];
      }),
    ),
  );
  const questions = names.filter((name) => judgeQuestion(policy, name, "A").allowed).map((name) => `? ${name}`);
  return [...connections, ...questions];
}

function wish(name: string) {
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
  const some = <T>(all: T[], most: number) =>
    Array.from({ length: Math.floor(random() * (most + 1)) }, () => all[Math.floor(random() * all.length)] as T);
  return custom({
    domains: plain(...new Set(some(patterns, 3))),
    allowedCidrs: some(ranges, 2),
    deniedCidrs: random() < 0.6 ? [] : some(ranges, 2),
  });
}

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
