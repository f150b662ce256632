/** Environment variables of sandboxes often hold secrets, so their values are encrypted wherever they are stored. */

import type { Seal } from "../context.ts";

type Environment = Record<string, string>;

export function sealEnvironment(env: Environment, { seal }: Pick<Seal, "seal">): Environment {
  return mapped(env, seal);
}

/** decrypted, for a program that starts now; descriptions of an earlier version have plain values */
export function openEnvironment(env: Environment, { open, isSealed }: Omit<Seal, "seal">): Environment {
  return mapped(env, (value) => (isSealed(value) ? open(value) : value));
}

function mapped(env: Environment, change: (value: string) => string): Environment {
  return Object.fromEntries(Object.entries(env).map(([name, value]) => [name, change(value)]));
}
