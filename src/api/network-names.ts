/** What a network policy names, on every wire: domains, in which whole labels may be wildcards, and subnets. */

import { z } from "zod";
import { parseCidr } from "../core/cidr.ts";

const label = "(\\*|[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)";

export const domainName = z
  .string()
  .min(1)
  .max(253)
  .toLowerCase()
  .regex(new RegExp(`^${label}(\\.${label})*$`), "a domain of the network policy is not one.");

export const subnet = z
  .string()
  .max(64)
  .refine(
    (text) => text.includes("/") && parseCidr(text) !== undefined,
    "a subnet of the network policy is not in CIDR notation.",
  );
