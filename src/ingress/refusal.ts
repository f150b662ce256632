/** The ingress's own error responses: a page for people, JSON for everything else. */

import type { IncomingMessage } from "node:http";
import { isSandkeepError } from "../core/model/errors.ts";
import type { PortAccess } from "./port-access.ts";

export interface Refusal {
  status: number;
  /** what programs look at */
  code: string;
  title: string;
  message: string;
  /** what programs get in place of our own JSON; a text is sent as it is */
  body?: string | object;
}

export type RefusalKind =
  | "not-found"
  | "stopped"
  | "not-listening"
  | "bad-answer"
  | "unreachable"
  | "slow-client"
  | "busy"
  | "private"
  | "upgrade-with-body";

const refusals: Record<RefusalKind, Refusal> = {
  "not-found": {
    status: 404,
    code: "SANDBOX_NOT_FOUND",
    title: "There is no such sandbox",
    message: "No sandbox has a port under this name; it was deleted, or the name is mistyped",
  },
  stopped: {
    status: 410,
    code: "SANDBOX_STOPPED",
    title: "This sandbox is stopped",
    message: "The sandbox is not running; resume it and try again",
  },
  "not-listening": {
    status: 502,
    code: "SANDBOX_NOT_LISTENING",
    title: "Nothing listens here yet",
    message: "The sandbox is running, but no program in it listens on this port",
  },
  "bad-answer": {
    status: 502,
    code: "SANDBOX_BAD_ANSWER",
    title: "The program gave no proper answer",
    message: "The program in the sandbox closed the connection, or its answer was not HTTP",
  },
  unreachable: {
    status: 502,
    code: "SANDBOX_UNREACHABLE",
    title: "This sandbox cannot be reached",
    message: "The sandbox could not be reached",
  },
  "slow-client": {
    status: 408,
    code: "REQUEST_TIMEOUT",
    title: "The request took too long",
    message: "The rest of the request did not arrive",
  },
  busy: {
    status: 503,
    code: "SANDBOX_BUSY",
    title: "This sandbox is busy",
    message: "The sandbox has as many connections as it may have; try again in a moment",
  },
  private: {
    status: 403,
    code: "SANDBOX_PRIVATE",
    title: "This sandbox is not public",
    message: "The ports of this sandbox are reached with its token only, which is missing or wrong",
  },
  "upgrade-with-body": {
    status: 400,
    code: "BAD_REQUEST",
    title: "This request cannot be understood",
    message: "A request that asks for another protocol cannot have a body",
  },
};

/** The response to an error of the core. */
export function refusalOf(error: unknown): Refusal {
  if (isSandkeepError(error, "not-found")) return refusals["not-found"];
  if (isSandkeepError(error, "gone")) return refusals.stopped;
  if (isSandkeepError(error, "conflict")) return refusals["not-listening"];
  if (isSandkeepError(error, "limit")) return refusals.busy;
  if (isSandkeepError(error, "forbidden")) return refusals.private;
  return refusals.unreachable;
}

/** The response that a dialect gives for a port of its own. */
export function refusalBy({ status, message }: { status: number; message: string }): Refusal {
  return { status, code: "SANDBOX_PORT_REFUSED", title: "This request cannot be served", message };
}

export function refusalFor(kind: RefusalKind): Refusal {
  return refusals[kind];
}

/** The refusal in the form of the dialect whose clients use this label; our own where it is no dialect's. */
export function inForm(ports: PortAccess | undefined, label: string | undefined, refusal: Refusal): Refusal {
  const { status, code, message } = refusal;
  return { ...refusal, ...(label !== undefined && ports?.refused?.(label, { status, code, message })) };
}

/** Headers and body of a refusal, in the form that this client asked for. */
export function printRefusal(refusal: Refusal, request: IncomingMessage): { headers: string[]; body: string } {
  const html = prefersHtml(request.headers.accept);
  const { code, message, body: own = { error: { code, message } } } = refusal;
  const plain = typeof own === "string" ? own : JSON.stringify(own);
  const type = html ? "text/html" : typeof own === "string" ? "text/plain" : "application/json";
  const body = html ? page(refusal) : `${plain}\n`;
  const headers = [
    ...["Content-Type", `${type}; charset=utf-8`],
    ...["Content-Length", String(Buffer.byteLength(body))],
    ...["Cache-Control", "no-store"],
    ...["X-Sandkeep-Error", refusal.code],
    ...(html ? ["Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'"] : []),
  ];
  return { headers, body: request.method === "HEAD" ? "" : body };
}

/** whether an error is worth telling the operator: everything that is neither the caller's nor the sandbox's doing */
export function isOurFault(error: unknown): boolean {
  return refusalOf(error) === refusals.unreachable;
}

/** Browsers name HTML first; programs that take anything get JSON. */
function prefersHtml(accept = ""): boolean {
  const [html, json] = [accept.indexOf("text/html"), accept.indexOf("json")];
  return html >= 0 && (json < 0 || html < json);
}

/** Nothing in it comes from the request, so nothing needs escaping. */
function page({ status, code, title, message }: Refusal): string {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${title}</title>
<style>
  :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
  body { display: grid; place-content: center; min-height: 90vh; margin: 0 1.5rem }
  h1 { font-size: 1.4rem; margin: 0 }
  small { opacity: 0.6 }
</style>
<h1>${title}</h1>
<p>${message}.</p>
<small>${status} ${code}</small>
</html>
`;
}
