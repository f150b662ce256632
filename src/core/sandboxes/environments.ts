/** The environment variables of sandboxes are often secrets: their values are sealed wherever they are kept. */

import type { Seal } from "../context.ts";

type Environment = Record<string, string>;

export function sealEnvironment(env: Environment, { seal }: Pick<Seal, "seal">): Environment {
  return mapped(env, seal);
}

/** for a program that starts now; a description that an earlier version wrote has them in the clear */
export function openEnvironment(env: Environment, { open, isSealed }: Omit<Seal, "seal">): Environment {
  return mapped(env, (value) => (isSealed(value) ? open(value) : value));
}

function mapped(env: Environment, change: (value: string) => string): Environment {
  return Object.fromEntries(Object.entries(env).map(([name, value]) => [name, change(value)]));
}
