/**
 * Decides what is done with a request. Its host must be the host of its connection; then the first rule that matches says
 * where it goes and with which headers, or gives a fixed answer.
 */

import type { Readable } from "node:stream";
import type { ForwardHeaders } from "../../core/model/conventions.ts";
import type { ForwardIdentity, RequestRule, RuleAction } from "../../core/network/network-policy.ts";
import type { TimeShare } from "../fairness/turns.ts";
import type { Outgoing } from "./client.ts";
import { endToEnd, type Header, overridden, takesTrailers, valuesOf, without } from "./headers.ts";
import { tokenFor } from "./identity.ts";
import { ruleFor, TooCostly } from "./matching.ts";
import type { Upstream } from "./upstream.ts";

/** What a program asks, whichever version of HTTP it speaks. */
export interface Incoming {
  method: string;
  /** path and query */
  target: string;
  /** the hosts that it names; a sound request names one */
  authorities: string[];
  /** all of them, also those about the connection */
  headers: Header[];
  hasBody: boolean;
  body: Readable;
  /** once the body has ended */
  trailers(): Header[];
}

/** What all requests of one connection have in common. */
export interface ConnectionContext {
  host: string;
  port: number;
  rules: readonly RequestRule[];
  identity?: ForwardIdentity | undefined;
  forwardHeaders?: ForwardHeaders | undefined;
  /** the host itself */
  origin: Upstream;
  /** where a rule forwards to */
  forwardUpstream(url: URL): Upstream;
  /** the machine's share of this process's time */
  share: TimeShare;
  /** called with each request when it comes, and with its result when it is over */
  asked(): void;
  seen(request: SeenRequest): void;
}

export interface SeenRequest {
  method: string;
  /** without the query, which may hold secrets */
  path: string;
  /** undefined when there was no answer */
  status?: number;
  /** which of the rules, counted from 0, and what it does; undefined when none matched */
  rule?: { index: number; kind: RuleAction["kind"] };
  /** of the bodies, as the program sent and received them */
  sent: number;
  received: number;
  /** a sentence, when it was refused or could not be passed on */
  problem?: string;
}

/** The server and headers for the request, or a fixed answer. */
export type Decision = { rule?: NonNullable<SeenRequest["rule"]> } & (
  | { origin: Upstream; request: Outgoing }
  | { answer: FixedAnswer }
);

export interface FixedAnswer {
  status: number;
  /** with its length */
  headers: Header[];
  body: string;
  /** a sentence, when the answer says that something went wrong */
  problem?: string;
}

/** before a byte of its body is read */
export function decide(context: ConnectionContext, incoming: Incoming): Decision {
  const problem = problemOf(context, incoming);
  if (problem) return { answer: problem };
  const { rules, host, origin } = context;
  let found: RequestRule | undefined;
  try {
    found = ruleFor(rules, incoming);
  } catch (error) {
    if (!(error instanceof TooCostly)) throw error;
    return { answer: refusal(431, error.message) };
  }
  const action = found?.action;
  const rule = found && { rule: { index: rules.indexOf(found), kind: found.action.kind } };
  if (action?.kind === "respond") return { ...rule, answer: givenAnswer(action) };
  if (action?.kind === "forward") return { ...rule, ...forwarded(context, incoming, action.url) };
  // Its answer would be what the host was sent, secrets included (RFC 9110, 9.3.8).
  if (action && mirrors.includes(incoming.method.toUpperCase())) {
    return { ...rule, answer: refusal(405, `Cannot send ${incoming.method} to a host whose rules set headers`) };
  }
  const secret = action ? Object.keys(action.headers).map((name) => name.toLowerCase()) : [];
  const headers = overridden(endToEnd(incoming.headers), action?.headers ?? {});
  // The rule may have set it; otherwise it is the one that has been checked.
  const [authority = host] = [...valuesOf(headers, "host"), ...incoming.authorities];
  return { ...rule, origin, request: { ...outgoing(incoming), authority, headers: without(headers, "host"), secret } };
}

/** about what passing on one takes, in µs */
export const requestCost = 500;

/** methods that are answered with the request */
const mirrors = ["TRACE", "TRACK"];

/** says what went wrong, so that the program's author can act on it */
export function refusal(status: number, problem: string): FixedAnswer {
  const body = `${problem}\n`;
  return { status, headers: [["content-type", "text/plain; charset=utf-8"], lengthOf(body)], body, problem };
}

export function seenOf({ method, target }: Incoming): SeenRequest {
  return { method, path: target.split("?", 1)[0] ?? "", sent: 0, received: 0 };
}

/** the program's request as it goes to a server, without the server and the changed headers */
function outgoing(incoming: Incoming): Omit<Outgoing, "authority" | "headers"> {
  const { method, target, hasBody } = incoming;
  return { method, target, hasBody, scheme: "https", secret: [], takesTrailers: takesTrailers(incoming.headers) };
}

function forwarded(context: ConnectionContext, incoming: Incoming, to: string): Decision {
  const { host, port, identity, forwardHeaders: names, forwardUpstream } = context;
  if (!names) return { answer: refusal(502, `Cannot forward to "${to}": the names of its headers are not set`) };
  if (!identity) return { answer: refusal(502, `Cannot forward to "${to}": the sandbox has no identity`) };
  const url = new URL(to);
  const about = {
    [names.host]: host,
    [names.scheme]: "https",
    [names.port]: String(port),
    [names.path]: incoming.target,
    [names.token]: tokenFor(identity, to, Date.now()),
  };
  const headers = without(overridden(endToEnd(incoming.headers), about), "host");
  const scheme = url.protocol === "https:" ? "https" : "http";
  const target = `${url.pathname}${url.search}`;
  const secret = [names.token];
  return {
    origin: forwardUpstream(url),
    request: { ...outgoing(incoming), scheme, target, authority: url.host, headers, secret },
  };
}

function givenAnswer({ status, headers = {}, body = "", contentType }: Extract<RuleAction, { kind: "respond" }>) {
  const type: Header[] = contentType === undefined ? [] : [["content-type", contentType]];
  const given = type.length > 0 ? without(Object.entries(headers), "content-type") : Object.entries(headers);
  const bodiless = status === 204 || status === 304;
  return bodiless
    ? { status, headers: [...given, ...type], body: "" }
    : { status, headers: [...given, ...type, lengthOf(body)], body };
}

function lengthOf(body: string): Header {
  return ["content-length", String(Buffer.byteLength(body))];
}

function problemOf(
  { host, port }: ConnectionContext,
  { authorities, target, method }: Incoming,
): FixedAnswer | undefined {
  const [authority = "", ...more] = authorities;
  if (more.some((other) => other !== authority)) return refusal(400, "Cannot serve a request that names two hosts");
  const named = authority.toLowerCase().replace(/\.?(:\d+)?$/, "$1");
  if (named !== host && named !== `${host}:${port}`) {
    const why = "a policy allows each host by itself";
    return refusal(421, `Cannot send a request for "${authority}" over a connection to "${host}": ${why}`);
  }
  if (target.startsWith("/") || (target === "*" && method === "OPTIONS")) return undefined;
  return refusal(400, "Cannot serve a request whose target is not a path");
}
