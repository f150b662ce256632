/**
 * Access tokens: what a client shows to work inside one sandbox, made for it when it creates or connects.
 *
 *   <team>.<key>.<proof>     proof: HMAC-SHA256 over the sandbox, the team and the key, with a secret of this daemon
 *
 * Nothing of it is stored. It stands for the API key that it was made with: it may do what that may, and is worth
 * nothing once that is deleted or has expired.
 */

import { timingSafeEqual } from "node:crypto";
import { SandkeepError } from "../../core/model/errors.ts";
import type { Caller, Owner } from "../../core/model/sandbox.ts";
import type { Dialect } from "./request.ts";

export function accessToken({ sign }: Pick<Dialect, "sign">, sandboxId: string, caller: Caller): string {
  const { teamId, keyId = "" } = caller;
  return `${teamId}.${keyId}.${sign(`access token ${sandboxId} ${teamId} ${keyId}`)}`;
}

/** what everybody shows who reaches a port of a sandbox whose traffic is not public */
export function trafficToken({ sign }: Pick<Dialect, "sign">, sandboxId: string): string {
  return sign(`traffic token ${sandboxId}`);
}

/** as whom a token lets its holder into a sandbox, in the sandbox's project; `unauthenticated` where it does not */
export async function ownerOfToken(
  { sign, core }: Pick<Dialect, "sign" | "core">,
  sandboxId: string,
  token: string,
): Promise<Owner> {
  const [, teamId, keyId] = /^([\w-]+)\.([\w-]*)\.[0-9a-f]+$/.exec(token.slice(0, longest)) ?? [];
  if (teamId === undefined || keyId === undefined) throw wrongToken();
  if (!isSame(token, accessToken({ sign }, sandboxId, { teamId, keyId }))) throw wrongToken();
  return core.access.owner(await core.access.callerOf(teamId, keyId), {});
}

/** in constant time */
export function isSame(given: string, wanted: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(wanted)];
  return one.length === other.length && timingSafeEqual(one, other);
}

const longest = 1024;

function wrongToken(): SandkeepError {
  return new SandkeepError("unauthenticated", "Cannot use the sandbox: the access token is missing or wrong");
}
