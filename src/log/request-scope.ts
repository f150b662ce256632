/**
 * The current request, available to all asynchronous work that it started: its id, and the sandbox and session it is
 * about. Log lines have these fields; the request's own line says how it ended.
 */

import { AsyncLocalStorage } from "node:async_hooks";
import type { IncomingMessage, ServerResponse } from "node:http";
import { fewRandomBytes } from "../base/random-bytes.ts";
import type { About } from "../core/context.ts";
import type { Log } from "./log.ts";

interface Scope extends About {
  request?: string;
}

const credentialHeaders = /^(authorization|x-api-key|cookie)$|\btoken$/;
/** of one request: one with many would push out those of others */
const mostCredentials = 8;

const scopes = new AsyncLocalStorage<Scope>();

/** the fields of the request that is under way; none outside of one */
export function currentScope(): Scope {
  return scopes.getStore() ?? {};
}

/** adds to the request that is under way */
export function about(fields: About): void {
  const scope = scopes.getStore();
  if (scope) Object.assign(scope, fields);
}

export interface RequestLog {
  log: Log;
  /** of the lines of requests */
  level: "info" | "debug";
  /** in ms since any moment */
  now: () => number;
  /** called with the secrets that a request proves its caller with */
  redact: (secret: string) => void;
}

/** runs the work of a request in its own scope, and logs its line when the response has ended */
export function inRequest(
  { log, level, now, redact }: RequestLog,
  request: IncomingMessage,
  response: ServerResponse,
  work: () => void,
): void {
  const scope: Scope = { request: `r-${fewRandomBytes(9).toString("base64url")}` };
  response.setHeader("x-request-id", scope.request ?? "");
  const credentials = Object.entries(request.headers).filter(([name]) => credentialHeaders.test(name));
  for (const [, value] of credentials.slice(0, mostCredentials)) {
    if (typeof value === "string") redact(value.replace(/^\w+ /, ""));
  }
  if (log.isLevelEnabled(level)) {
    const began = now();
    response.once("close", () => {
      // Without the query: it may have tokens in it.
      const path = (request.url ?? "").split("?")[0];
      const ended = response.writableFinished ? {} : { aborted: true };
      const ms = Math.round((now() - began) * 10) / 10;
      const { method } = request;
      const { statusCode: status } = response;
      log[level]({ ...scope, method, path, status, ms, ...ended }, `${method} ${path} ${status} in ${ms} ms`);
    });
  }
  scopes.run(scope, work);
}
