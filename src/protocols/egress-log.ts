/**
 * The egress log of a machine, written by the egress process and read by the daemon; the two share nothing else. It is
 * lines of JSON in `egress.jsonl` in the machine's folder. When that file is full, it becomes `egress.1.jsonl`.
 * A line:
 *
 *   {"id":7,"at":1763194000123,"protocol":"tls","name":"api.test","address":"93.184.216.34","port":443,
 *    "allowed":true,"rule":"allow *.test","command":"cmd_3f…","program":"curl",
 *    "count":1,"ended":1,"bytesIn":5120,"bytesOut":840}
 *
 *   id        comes first. Increases by one from line to line, also over a restart of the process, so that a reader
 *             knows its place, and which lines it missed
 *   at        when the first of the decisions was made, in ms since 1970
 *   count     decisions that the line stands for: equal ones within a moment share a line
 *   ended     connections that have ended, whose bytes the line counts; they may have been decided in an earlier line
 *   dropped   events for which there was no room, with nothing else on the line but `id` and `at`
 *   v         the version of the format; 1 where it is missing
 *
 * The rest are the fields of EgressDecision, each text cut after 512 characters. Lines of equal fields add up their
 * counts and bytes. A reader ignores fields that it does not know, so a new field needs no new version; a new kind of
 * cause does.
 */

import { parsedJson } from "./json-text.ts";
import { checkVersion } from "./newer-format.ts";
import { byKind, count, fitting, flag, list, object, oneOf, optional, type Shape, text } from "./shapes.ts";

export const egressLogVersion = 1;

/** names of the files: the current one, and the one before it */
export const egressLogFile = "egress.jsonl";
export const olderEgressLogFile = "egress.1.jsonl";

/** longest line, in bytes */
export const longestEgressLine = 64 << 10;
/** longest text, in characters: texts from programs may be long */
const longestText = 512;

/** The process inside that holds the socket, if it is known. */
export interface EgressActor {
  /** id of the command that the process belongs to */
  command?: string;
  /** the name of the process, which it can choose freely */
  program?: string;
}

/** A decision about a connection, a flow of datagrams, a request or a DNS query. */
export interface EgressDecision extends EgressActor {
  /** as far as known: "tcp" if the content was not inspected or is unknown; "https" where TLS is intercepted */
  protocol: "tcp" | "tls" | "http" | "https" | "postgres" | "udp" | "dns" | "icmp" | "other";
  /** the requested name, or the name that resolved to the address */
  name?: string;
  /** the name in the TLS hello */
  sni?: string;
  address?: string;
  port?: number;
  /** fields of a request, if it is readable; a path is without its query */
  method?: string;
  path?: string;
  status?: number;
  /** type of a DNS query: A, AAAA … */
  type?: string;
  allowed: boolean;
  /** why it was refused, as a sentence without its full stop */
  reason?: string;
  /** why it failed although it was allowed: a name that does not resolve, a server that does not answer */
  failure?: string;
  /** the rule that decided: "allow *.example.com", "subnets.deny 10.0.0.0/8", "allow-all", "deny-all" */
  rule?: string;
  /** the cause of the decision, for programs; missing in lines of older processes */
  cause?: EgressCause;
  missing?: MissingPermission;
}

/** The cause of a decision, for programs. Sentences for people are in `reason`. */
export type EgressCause =
  /** the policy allows everything that is possible at all, or nothing */
  | { kind: "allow-all" }
  | { kind: "deny-all" }
  /** the policy lists it, or does not */
  | { kind: "policy" }
  | { kind: "denied-subnet"; subnet: string }
  /** a name cannot allow it: the connection names none, or proves none */
  | { kind: "by-subnet-only" }
  /** its TLS names a host that does not resolve to the address */
  | { kind: "wrong-name" }
  /** an address that is not public, belongs to the host, or is denied by the operator */
  | { kind: "special-address" }
  /** only the sandbox's own resolver is allowed */
  | { kind: "other-resolver" }
  /** plain HTTP to a host whose requests have rules */
  | { kind: "around-rules" }
  /** ICMP, other protocols and port 0, which no policy allows */
  | { kind: "unsupported" }
  /** the egress process does not have the policy yet */
  | { kind: "unknown-policy" }
  /** a request where TLS is intercepted; `rule` counts from 1 and is missing if none matched */
  | { kind: "request"; rule?: number }
  /** TLS had to be intercepted for rules, and could not be */
  | { kind: "interception" }
  /** it was allowed before, and a change of the policy ended it */
  | { kind: "cut-off" };

/** The smallest policy change that would allow the refused connection, in the words of the API. */
export interface MissingPermission {
  allow?: string[];
  subnets?: { allow: string[] };
}

/** Bytes from the sandbox's point of view: those that its programs wrote to and read from their sockets. */
export interface EgressTraffic {
  bytesIn: number;
  bytesOut: number;
}

/** A line's place in the log. */
export interface EgressPosition {
  /** increases by one from line to line, from 1 on */
  id: number;
  /** time of the line's first decision */
  at: number;
}

/** A line that the egress process writes. */
export type EgressLogLine =
  | (EgressPosition & EgressDecision & EgressTraffic & { count: number; ended: number })
  /** number of decisions that were not logged, as there were too many at once */
  | (EgressPosition & { dropped: number });

const short = optional(text);
const nothing = object<object>({});
const cause = byKind<EgressCause>({
  "allow-all": nothing,
  "deny-all": nothing,
  policy: nothing,
  "denied-subnet": object({ subnet: text }),
  "by-subnet-only": nothing,
  "wrong-name": nothing,
  "special-address": nothing,
  "other-resolver": nothing,
  "around-rules": nothing,
  unsupported: nothing,
  "unknown-policy": nothing,
  request: object<{ rule?: number }>({ rule: optional(count) }),
  interception: nothing,
  "cut-off": nothing,
});
const missing = object<MissingPermission>({
  allow: optional(list(text)),
  subnets: optional(object({ allow: list(text) })),
});
const decision = object<Exclude<EgressLogLine, { dropped: number }>>({
  id: count,
  at: count,
  protocol: oneOf(["tcp", "tls", "http", "https", "postgres", "udp", "dns", "icmp", "other"]),
  name: short,
  sni: short,
  address: short,
  port: optional(count),
  method: short,
  path: short,
  status: optional(count),
  type: short,
  allowed: flag,
  reason: short,
  failure: short,
  rule: short,
  cause: optional(cause),
  command: short,
  program: short,
  missing: optional(missing),
  count,
  ended: count,
  bytesIn: count,
  bytesOut: count,
});
const dropped = object<EgressPosition & { dropped: number }>({ id: count, at: count, dropped: count });
const line: Shape<EgressLogLine> = (value, path) => fitting(dropped, value) ?? decision(value, path);

/** includes the line break */
export function writeEgressLine({ id, ...rest }: EgressLogLine): string {
  return `${JSON.stringify({ id, ...rest })}\n`;
}

/** undefined for an invalid line, such as the incomplete one of a killed process; throws NewerFormat */
export function readEgressLine(written: string): EgressLogLine | undefined {
  const value = parsedJson(written);
  checkVersion("the egress log", value, egressLogVersion);
  return fitting(line, value);
}

/** the id of the line at the start of a text, or 0. Much cheaper than reading the line */
export function egressLineId(beginning: string): number {
  return Number(/^\{"id":(\d+),/.exec(beginning)?.[1] ?? 0);
}

/** the id of the last whole line of a text */
export function lastEgressLineId(end: string): number | undefined {
  const whole = end.slice(0, end.lastIndexOf("\n") + 1);
  const last = [...whole.matchAll(/^\{"id":(\d+),/gm)].at(-1);
  return last && Number(last[1]);
}

/** the decision with its texts cut to the length that the log allows */
export function shortenedDecision(said: EgressDecision): EgressDecision {
  const long = Object.entries(said).filter(([, value]) => typeof value === "string" && value.length > longestText);
  if (long.length === 0) return said;
  const cut = long.map(([key, value]) => [key, `${String(value).slice(0, longestText)}…`.toWellFormed()]);
  return { ...said, ...Object.fromEntries(cut) };
}
