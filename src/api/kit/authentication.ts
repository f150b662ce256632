/** Authentication: finds the caller by the key in a request, and checks that the caller may do what it asks. */

import type { Core } from "../../core/core.ts";
import { SandkeepError } from "../../core/model/errors.ts";
import type { Caller } from "../../core/model/sandbox.ts";
import { requireChange } from "../../core/model/scope.ts";
import { abortWhenEnded, addressOf } from "./http.ts";

/** A request, and its path as the dialect's router reads it. */
interface Routed {
  raw: Request;
  path: string;
}

/** the caller that the request's token belongs to; `reading` as in requireRead() */
export async function authenticate({ access }: Pick<Core, "access">, request: Routed, reading = none): Promise<Caller> {
  const caller = await access.authenticate(bearerOf(request.raw), addressOf(request.raw));
  abortWhenEnded(request.raw, caller.ended);
  requireRead(caller, request, reading);
  return caller;
}

const none = /^$/;

/** the token that a request carries */
export function bearerOf(request: Request): string {
  const secret = /^Bearer +(\S+)$/i.exec(request.headers.get("authorization") ?? "")?.[1];
  if (secret !== undefined && secret.length <= longestToken) return secret;
  throw new SandkeepError("unauthenticated", "There is no token");
}

const longestToken = 8192;

/**
 * Refuses a request that would change something when the caller may only read, before the body is read. The core also
 * refuses such calls. `reading` matches the paths of a wire's POST requests that only read.
 */
export function requireRead(caller: Caller, { raw: { method }, path }: Routed, reading = none): void {
  if (method !== "GET" && method !== "HEAD" && !(method === "POST" && reading.test(path))) requireChange(caller);
}
