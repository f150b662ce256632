/**
 * What a caller may do less than its team: keys may be limited to a project, to reading, and to network policies no wider
 * than a given one. A way in may limit its callers further (MCP does). Everything here is pure.
 */

import type { NetworkPolicy } from "../network/network-policy.ts";
import { isNoWider } from "../network/policy-width.ts";
import { SandkeepError } from "./errors.ts";
import type { Caller } from "./sandbox.ts";

export interface Scope {
  /** the one project that there is for this caller */
  projectId?: string | undefined;
  readOnly?: boolean | undefined;
  /** policies that no policy which this caller sets or uses may be wider than */
  ceilings?: NetworkPolicy[] | undefined;
  /** whether the policy of a sandbox, of its forks and of what starts from its snapshots may only get narrower */
  narrowsOnly?: boolean | undefined;
}

/** refuses a caller that may only read */
export function requireChange({ scope }: Caller): void {
  if (scope?.readOnly) throw forbidden("this key may only read");
}

/** refuses a caller whose one project is another */
export function requireProject({ scope }: Caller, projectId: string): void {
  if (scope?.projectId === undefined || scope.projectId === projectId) return;
  throw forbidden("this key is limited to another project");
}

/** refuses a caller with one project, for what all projects of the team share */
export function requireWholeTeam({ scope }: Caller, what: string): void {
  if (scope?.projectId !== undefined)
    throw forbidden(`this key is limited to a project, and ${what} is the whole team's`);
}

/** refuses a caller with limits of any kind, for what concerns the whole team */
export function requireUnlimited({ scope }: Caller, what: string): void {
  if (!scope?.readOnly && scope?.projectId === undefined && !scope?.ceilings?.length) return;
  throw forbidden(`this key is limited, and ${what} needs one that is not`);
}

/** the policy of a new sandbox: what is wanted, or the widest that the caller may have */
export function policyFor({ scope }: Caller, wanted: NetworkPolicy | undefined): NetworkPolicy | undefined {
  const ceilings = scope?.ceilings ?? [];
  if (wanted !== undefined || ceilings.length === 0) return wanted;
  return ceilings.find((each) => ceilings.every((other) => isNoWider(each, other))) ?? { mode: "deny-all" };
}

/** refuses a policy that the caller may not set; `current` is what is in its place now */
export function requirePolicy({ scope }: Caller, policy: NetworkPolicy, current?: NetworkPolicy): void {
  if ((scope?.ceilings ?? []).some((ceiling) => !isNoWider(policy, ceiling))) {
    throw forbidden("the network policy is wider than this key allows");
  }
  if (scope?.narrowsOnly && current && !isNoWider(policy, current)) {
    throw forbidden("a network policy may only be made narrower here, and this one is wider than the one in force");
  }
}

/** refuses to work in a sandbox that reaches more than the caller may open */
export function requireUsable(caller: Caller, name: string, policy: NetworkPolicy): void {
  if ((caller.scope?.ceilings ?? []).every((ceiling) => isNoWider(policy, ceiling))) return;
  throw forbidden(`the network policy of the sandbox "${name}" is wider than this key allows`);
}

function forbidden(why: string): SandkeepError {
  return new SandkeepError("forbidden", `Not authorized: ${why}`, { about: { kind: "key" } });
}
