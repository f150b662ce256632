/**
 * The current request, available to all asynchronous work that it started: its id, the sandbox and session it is about,
 * and where it came from. Log lines have the former; the request's own line says how it ended.
 */

import { AsyncLocalStorage } from "node:async_hooks";
import type { IncomingMessage, ServerResponse } from "node:http";
import { randomText } from "../base/random-bytes.ts";
import { remembered } from "../base/remembered.ts";
import type { About } from "../core/context.ts";
import type { Origin } from "../core/model/audit.ts";
import type { Log } from "./log.ts";

interface Scope extends About {
  request?: string;
}

const isCredential = remembered((header: string) => /^(authorization|x-api-key|cookie)$|\btoken$/.test(header));
/** of one request */
const mostCredentials = 8;

interface Current {
  scope: Scope;
  /** what it proves its caller with, true or not: none of its lines shows that, and lines of others need not hide it */
  secrets: readonly string[];
  wire?: string;
  /** not the request itself: what a request started, such as a machine, may live long after it */
  address: string;
}

const currents = new AsyncLocalStorage<Current>();

/** the fields of the request that is under way; none outside of one */
export function currentScope(): Scope {
  return currents.getStore()?.scope ?? {};
}

/** the secrets of the request that is under way; none outside of one */
export function currentSecrets(): readonly string[] {
  return currents.getStore()?.secrets ?? [];
}

/** adds to the request that is under way */
export function about(fields: About): void {
  const current = currents.getStore();
  if (current) Object.assign(current.scope, fields);
}

/** says which API answers the request that is under way */
export function speaks(wire: string): void {
  const current = currents.getStore();
  if (current) current.wire = wire;
}

/** where the request that is under way came from */
export function origin(): Origin {
  const { wire, address } = currents.getStore() ?? {};
  return { ...(wire !== undefined && { wire }), ...(address && { address }) };
}

/** runs the work of a request for another protocol, such as WebSocket, with its origin */
export function inUpgrade(
  { addressOf }: Pick<RequestLog, "addressOf">,
  request: IncomingMessage,
  work: () => void,
): void {
  currents.run({ scope: {}, secrets: credentialsOf(request), address: addressOf(request) }, work);
}

export interface RequestLog {
  log: Log;
  /** of the lines of requests */
  level: "info" | "debug";
  /** in ms since any moment */
  now: () => number;
  /** the client's IP address */
  addressOf: (request: IncomingMessage) => string;
}

/** runs the work of a request in its own scope, with headers for its answer, and logs its line when that has ended */
export function inRequest(
  { log, level, now, addressOf }: RequestLog,
  request: IncomingMessage,
  response: ServerResponse,
  work: (request: IncomingMessage, response: ServerResponse, headers: Record<string, string>) => void,
): void {
  const id = `r-${randomText(12)}`;
  const scope: Scope = { request: id };
  const current: Current = { scope, secrets: credentialsOf(request), address: addressOf(request) };
  if (log.isLevelEnabled(level)) {
    const began = now();
    response.once("close", () => {
      // Without the query: it may have tokens in it.
      const path = (request.url ?? "").split("?")[0];
      const ended = response.writableFinished ? {} : { aborted: true };
      const ms = Math.round((now() - began) * 10) / 10;
      const { method } = request;
      const { statusCode: status } = response;
      const line = { ...scope, method, path, status, ms, ...ended };
      currents.run(current, () => log[level](line, `${method} ${path} ${status} in ${ms} ms`));
    });
  }
  currents.run(current, work, request, response, { "x-request-id": id });
}

function credentialsOf({ headers }: IncomingMessage): string[] {
  const found: string[] = [];
  for (const name in headers) {
    const value = headers[name];
    if (typeof value !== "string" || !isCredential(name)) continue;
    if (found.push(value.replace(/^\w+ /, "")) >= mostCredentials) break;
  }
  return found;
}
