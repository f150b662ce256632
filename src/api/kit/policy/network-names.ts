/** Schemas of the names in a network policy, on every wire: subnets, and domains, whose labels may be wildcards. */

import { z } from "zod";
import { parseCidr } from "../../../core/network/cidr.ts";

const longestQuote = 100;
const label = "(\\*|[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)";

export const domainName = z
  .string()
  .min(1)
  .max(253)
  .toLowerCase()
  .regex(new RegExp(`^${label}(\\.${label})*$`), {
    error: ({ input }) =>
      `${quoted(input)} is not a domain: a network policy names it as example.com or *.example.com, without a scheme, a port or a path.`,
  });

export const subnet = z
  .string()
  .max(64)
  .refine((text) => text.includes("/") && parseCidr(text) !== undefined, {
    error: ({ input }) =>
      `${quoted(input)} is not a subnet: a network policy names it in CIDR notation, as 203.0.113.0/24 or 2001:db8::/32.`,
  });

/** the caller's text in quotes, shortened to fit into a sentence */
function quoted(input: unknown): string {
  const text = String(input);
  return JSON.stringify(text.length > longestQuote ? `${text.slice(0, longestQuote)}…` : text);
}
