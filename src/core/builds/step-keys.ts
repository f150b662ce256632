/**
 * Names the files after each step of a build by everything that they depend on, so that a build which comes to the same step
 * in the same way can use them again: the files before it, what it does, and the contents and permissions that it copies.
 */

import { sha256Of } from "../../base/sha256.ts";
import type { NetworkPolicy } from "../network/network-policy.ts";
import type { BuildAction } from "./build-plan.ts";

/** raised when a step comes to mean something else */
const version = 1;

/** of what a stage begins with; steps of one team are never used for another */
export function baseKey(teamId: string, base: { digest: string } | "scratch"): string {
  return sha256Of(version, teamId, base === "scratch" ? base : base.digest);
}

export interface StepInputs {
  /** the key of the files before it */
  parent: string;
  action: BuildAction;
  network: NetworkPolicy;
  /** digests of what it copies from the context, or the key of the files that it copies from */
  copied?: string[];
}

export function stepKey({ parent, action, network, copied = [] }: StepInputs): string {
  if (action.kind === "setting") return parent;
  if (action.kind === "run") return sha256Of(parent, sorted({ ...action, env: sorted(action.env) }), network);
  // Which number a stage has says nothing of its files.
  const { from, ...rest } = action.kind === "copy" ? action : { ...action, from: undefined };
  return sha256Of(parent, sorted(rest), from === "context", copied);
}

function sorted<T extends object>(object: T): [string, unknown][] {
  return Object.entries(object)
    .filter(([, value]) => value !== undefined)
    .sort(([one], [other]) => (one < other ? -1 : 1));
}
