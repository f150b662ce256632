/**
 * The limits of a caller compared with its team: keys may be limited to a project, to reading, and to network policies
 * no wider than a given one. An API may limit its callers further (MCP does). Everything here is pure.
 */

import type { NetworkPolicy } from "../network/network-policy.ts";
import { isNoWider } from "../network/policy-width.ts";
import { SandkeepError } from "./errors.ts";
import type { Caller } from "./sandbox.ts";

export interface Scope {
  /** the only project that this caller may use */
  projectId?: string | undefined;
  readOnly?: boolean | undefined;
  /** no policy that this caller sets or uses may be wider than one of these */
  ceilings?: NetworkPolicy[] | undefined;
  /** whether policies of sandboxes, their forks and their snapshots may only get narrower */
  narrowsOnly?: boolean | undefined;
}

/** throws if the caller may only read */
export function requireChange({ scope }: Caller): void {
  if (scope?.readOnly) throw forbidden("this key may only read");
}

/** throws if the caller is limited to another project */
export function requireProject({ scope }: Caller, projectId: string): void {
  if (scope?.projectId === undefined || scope.projectId === projectId) return;
  throw forbidden("this key is limited to another project");
}

/** throws if the caller is limited to a project, for things that the whole team shares */
export function requireWholeTeam({ scope }: Caller, what: string): void {
  if (scope?.projectId !== undefined)
    throw forbidden(`this key is limited to a project, and ${what} is the whole team's`);
}

/** throws if the caller is limited to certain network policies, for things that no policy applies to */
export function requireAnyPolicy({ scope }: Caller, what: string): void {
  if (scope?.ceilings?.length) throw forbidden(`this key is limited to a network policy, and ${what} has none`);
}

/** throws if the caller has any limit, for things that concern the whole team */
export function requireUnlimited({ scope }: Caller, what: string): void {
  if (!scope?.readOnly && scope?.projectId === undefined && !scope?.ceilings?.length) return;
  throw forbidden(`this key is limited, and ${what} needs one that is not`);
}

/** throws if the key is not an operator's */
export function requireAdmin({ admin }: Caller, what: string): void {
  if (!admin) throw forbidden(`${what} needs an admin key`);
}

/** the policy of a new sandbox: the wanted one, or the widest that the caller may use */
export function policyFor({ scope }: Caller, wanted: NetworkPolicy | undefined): NetworkPolicy | undefined {
  const ceilings = scope?.ceilings ?? [];
  if (wanted !== undefined || ceilings.length === 0) return wanted;
  return ceilings.find((each) => ceilings.every((other) => isNoWider(each, other))) ?? { mode: "deny-all" };
}

/** throws if the caller may not set this policy; `current` is the one that it replaces */
export function requirePolicy({ scope }: Caller, policy: NetworkPolicy, current?: NetworkPolicy): void {
  if ((scope?.ceilings ?? []).some((ceiling) => !isNoWider(policy, ceiling))) {
    throw forbidden("the network policy is wider than this key allows");
  }
  if (scope?.narrowsOnly && current && !isNoWider(policy, current)) {
    throw forbidden("a network policy may only be made narrower here, and this one is wider than the one in force");
  }
}

/** throws if the sandbox's policy is wider than the caller may set */
export function requireUsable(caller: Caller, name: string, policy: NetworkPolicy): void {
  if ((caller.scope?.ceilings ?? []).every((ceiling) => isNoWider(policy, ceiling))) return;
  throw forbidden(`the network policy of the sandbox "${name}" is wider than this key allows`);
}

function forbidden(why: string): SandkeepError {
  return new SandkeepError("forbidden", `Not authorized: ${why}`, { about: { kind: "key" } });
}
