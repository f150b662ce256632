/**
 * A network policy as people write it in one line, for the limits of keys:
 *
 *   allow-all
 *   deny-all
 *   registry.npmjs.org, *.github.com, 203.0.113.0/24, !203.0.113.7/32
 *
 * A list names allowed domains and ranges; "!" before a range denies it.
 */

import { SandkeepError } from "../model/errors.ts";
import { parseCidr } from "./cidr.ts";
import { type CustomPolicy, hostName, type NetworkPolicy } from "./network-policy.ts";

export function policyOfText(text: string): NetworkPolicy {
  const words = text.split(",").map((word) => word.trim().toLowerCase());
  const [first = ""] = words;
  if (words.length === 1 && (first === "allow-all" || first === "deny-all")) return { mode: first };
  const policy: CustomPolicy = { mode: "custom", domains: [], allowedCidrs: [], deniedCidrs: [] };
  for (const word of words) {
    const range = word.replace(/^!/, "");
    if (range.includes("/") && parseCidr(range)) {
      (word === range ? policy.allowedCidrs : policy.deniedCidrs).push(range);
    } else if (hostName(word.replaceAll("*", "x")) !== undefined && /^(\*|[^*]+)(\.(\*|[^*.]+))*$/.test(word)) {
      policy.domains.push({ domain: word, rules: [] });
    } else {
      const wanted = "allow-all, deny-all, or domains and ranges separated by commas";
      throw new SandkeepError("invalid", `Cannot use "${word}" in a network policy: it must be ${wanted}`);
    }
  }
  return policy;
}

export function textOfPolicy(policy: NetworkPolicy): string {
  if (policy.mode !== "custom") return policy.mode;
  const { domains, allowedCidrs, deniedCidrs } = policy;
  return [...domains.map(({ domain }) => domain), ...allowedCidrs, ...deniedCidrs.map((range) => `!${range}`)].join(
    ", ",
  );
}
