/** An authenticated request to envd: its sandbox, the owner, and the user inside the sandbox. */

import type { Owner, Sandbox, Session } from "../../../core/model/sandbox.ts";
import { ConnectError } from "./connect.ts";

export interface EnvdCall {
  request: Request;
  /** the id in the wire's form */
  sandboxId: string;
  sandbox: Sandbox;
  session: Session;
  owner: Owner;
  /** undefined for the sandbox's default user */
  user: string | undefined;
}

/** the user that a request names with HTTP Basic authentication, without a password */
export function userOf(request: Request): string | undefined {
  const encoded = /^Basic +([\w+/=-]{1,512})$/i.exec(request.headers.get("authorization") ?? "")?.[1];
  const name = encoded && Buffer.from(encoded, "base64").toString("utf8").split(":")[0];
  if (!name) return undefined;
  requireUserName(name);
  return name;
}

/** refuses numbers, because the kernel would accept any of them as a user */
export function requireUserName(name: string): void {
  if (/^[a-z_][\w.-]{0,63}\$?$/i.test(name)) return;
  throw new ConnectError("unauthenticated", `invalid username: '${name.slice(0, 64)}'`);
}

/** how long the caller waits, in ms; undefined without limit */
export function timeoutOf(request: Request): number | undefined {
  const given = request.headers.get("connect-timeout-ms");
  if (given === null) return undefined;
  if (!/^\d{1,10}$/.test(given))
    throw new ConnectError("invalid_argument", "Cannot read the header connect-timeout-ms");
  const ms = Number(given);
  return ms > 0 && ms <= 0xffff_ffff ? ms : undefined;
}

/** a signal that aborts at the caller's deadline, or with the other signal */
export function deadlineOf(request: Request, signal: AbortSignal): { signal: AbortSignal; isOver: () => boolean } {
  const timeout = timeoutOf(request);
  if (timeout === undefined) return { signal, isOver: () => false };
  const late = AbortSignal.timeout(Math.min(timeout, 2 ** 31 - 1));
  return { signal: AbortSignal.any([signal, late]), isOver: () => late.aborted };
}

export function deadlineExceeded(): ConnectError {
  return new ConnectError("deadline_exceeded", "the time that the caller gave is over");
}

/** the message to send on a silent stream, and the silence before it, in ms */
export function keepaliveOf(request: Request, message: object): { message: object; after: number } {
  const given = request.headers.get("keepalive-ping-interval") ?? "";
  const seconds = /^\d{1,5}$/.test(given) ? Number(given) : 0;
  return { message, after: 1000 * (seconds > 0 ? seconds : defaultInterval) };
}

/** seconds between keepalive messages */
const defaultInterval = 90;
