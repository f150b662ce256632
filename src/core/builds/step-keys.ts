/**
 * Cache keys of build steps. A key covers everything that the files after a step depend on: the files before it, what
 * the step does, and the contents and permissions that it copies. A later build that reaches the same key reuses those
 * files.
 */

import { sha256Of } from "../../base/sha256.ts";
import type { NetworkPolicy } from "../network/network-policy.ts";
import { type BuildAction, isSent } from "./build-plan.ts";

/** increased when the meaning of a step changes */
const version = 2;

/** the key of a stage's base; includes the team, so that teams never share cached steps */
export function baseKey(teamId: string, base: { digest: string } | "scratch"): string {
  return sha256Of(version, teamId, base === "scratch" ? base : base.digest);
}

export interface StepInputs {
  /** key of the files before the step */
  parent: string;
  action: BuildAction;
  network: NetworkPolicy;
  /** digests of what the step copies from the context, or the key of the stage that it copies from */
  copied?: string[];
}

export function stepKey({ parent, action, network, copied = [] }: StepInputs): string {
  if (action.kind === "setting") return parent;
  if (action.kind === "run") return sha256Of(parent, sorted({ ...action, env: sorted(action.env) }), network);
  // A stage's number says nothing about its files.
  const { from, ...rest } = action.kind === "copy" ? action : { ...action, from: undefined };
  return sha256Of(parent, sorted(rest), from !== undefined && isSent(from), copied);
}

function sorted<T extends object>(object: T): [string, unknown][] {
  return Object.entries(object)
    .filter(([, value]) => value !== undefined)
    .sort(([one], [other]) => (one < other ? -1 : 1));
}
