/**
 * Access tokens: with one, a client works inside one sandbox. It gets the token when it creates or connects to it.
 *
 *   <team>.<key>.<proof>     proof: HMAC-SHA256 over the sandbox, the team and the key, with a secret of this daemon
 *
 * Tokens are not stored. A token has the permissions of the API key that it was made with, and becomes invalid when
 * that key is deleted or expires.
 */

import { timingSafeEqual } from "node:crypto";
import { SandkeepError } from "../../../core/model/errors.ts";
import type { Caller, Owner } from "../../../core/model/sandbox.ts";
import type { Dialect } from "../request.ts";

export function accessToken({ sign }: Pick<Dialect, "sign">, sandboxId: string, caller: Caller): string {
  const { teamId, keyId = "" } = caller;
  return `${teamId}.${keyId}.${sign(`access token ${sandboxId} ${teamId} ${keyId}`)}`;
}

/** the token that clients send to reach a port of a sandbox whose traffic is not public */
export function trafficToken({ sign }: Pick<Dialect, "sign">, sandboxId: string): string {
  return sign(`traffic token ${sandboxId}`);
}

/** the owner that a token authenticates for a sandbox; throws `unauthenticated` if the token is wrong */
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

/** compares in constant time */
export function isSame(given: string, wanted: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(wanted)];
  return one.length === other.length && timingSafeEqual(one, other);
}

const longest = 1024;

function wrongToken(): SandkeepError {
  return new SandkeepError("unauthenticated", "Cannot use the sandbox: the access token is missing or wrong");
}
