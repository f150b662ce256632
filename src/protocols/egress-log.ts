/**
 * The egress log of a machine. The egress process writes it, the daemon reads it, and the two share nothing else: lines
 * of JSON in `egress.jsonl` in the machine's folder, and in `egress.1.jsonl` what was there before that was full.
 * A line:
 *
 *   {"id":7,"at":1763194000123,"protocol":"tls","name":"api.test","address":"93.184.216.34","port":443,
 *    "allowed":true,"rule":"allow *.test","command":"cmd_3f…","program":"curl",
 *    "count":1,"ended":1,"bytesIn":5120,"bytesOut":840}
 *
 *   id        comes first. Counts up by one from line to line, also over a restart of the process: where a reader was,
 *             and what it missed because it is no longer kept
 *   at        when the first of the decisions was made, in ms since 1970
 *   count     decisions that the line stands for: equal ones within a moment share a line
 *   ended     connections that have ended, whose bytes the line counts; they may have been decided in an earlier line
 *   dropped   events for which there was no room, with nothing else on the line but `id` and `at`
 *   v         the version of the format; 1 where it is missing
 *
 * The rest are the fields of EgressDecision, each text cut after 512 characters. Lines of equal fields add up: to how
 * often, and to how many bytes. A reader passes over fields that it does not know, so a new one needs no new version; a new kind of
 * cause does.
 */

import { z } from "zod";
import { parsedJson } from "./json-text.ts";
import { checkVersion } from "./newer-format.ts";

export const egressLogVersion = 1;

/** names of the files: the one that is written to, and the one before it */
export const egressLogFile = "egress.jsonl";
export const olderEgressLogFile = "egress.1.jsonl";

/** no line is longer, in bytes */
export const longestEgressLine = 64 << 10;
/** characters of a text: what programs say may be long */
const longestText = 512;

/** Who it was inside, where that is known: whoever holds the socket. */
export interface EgressActor {
  /** id of the command that the process belongs to */
  command?: string;
  /** what the process is called; it may call itself what it likes */
  program?: string;
}

/** A decision about a connection, a flow of datagrams, a request or a question for a name. */
export interface EgressDecision extends EgressActor {
  /** what was spoken as far as it is known: "tcp" where nobody looked, or it is nothing we know; "https" where TLS is open */
  protocol: "tcp" | "tls" | "http" | "https" | "postgres" | "udp" | "dns" | "icmp" | "other";
  /** the name that was asked for, or that led to the address */
  name?: string;
  /** the name in the TLS hello */
  sni?: string;
  address?: string;
  port?: number;
  /** of a request, where TLS is open or there is none; a path is without its query */
  method?: string;
  path?: string;
  status?: number;
  /** of a question to the resolver: A, AAAA … */
  type?: string;
  allowed: boolean;
  /** why not, as a sentence without its end */
  reason?: string;
  /** what went wrong although it was allowed: a name that does not resolve, a server that does not answer */
  failure?: string;
  /** what decided: "allow *.example.com", "subnets.deny 10.0.0.0/8", "allow-all", "deny-all" */
  rule?: string;
  /** what decided, for programs; missing in lines of processes that did not write it yet */
  cause?: EgressCause;
  missing?: MissingPermission;
}

/** What decided. Sentences are in `reason`, which nobody but people has to read. */
export type EgressCause =
  /** the policy lets everything out that may go out at all, or nothing */
  | { kind: "allow-all" }
  | { kind: "deny-all" }
  /** the policy lists it, or does not */
  | { kind: "policy" }
  | { kind: "denied-subnet"; subnet: string }
  /** no name can allow it: it names none, or proves none */
  | { kind: "by-subnet-only" }
  /** its TLS names a host that does not lead to the address */
  | { kind: "wrong-name" }
  /** an address that is not public, is the host's own, or that the operator denies */
  | { kind: "special-address" }
  /** only the sandbox's own resolver may be asked */
  | { kind: "other-resolver" }
  /** plain HTTP to a host whose requests have rules */
  | { kind: "around-rules" }
  /** ICMP, other protocols and port 0, which no policy lets out */
  | { kind: "unsupported" }
  /** the egress process has not been given the policy yet */
  | { kind: "unknown-policy" }
  /** a request where TLS is open; `rule` counts from 1 and is missing where none matched */
  | { kind: "request"; rule?: number }
  /** TLS was to be opened for rules, and could not be */
  | { kind: "interception" }
  /** it was allowed before, and a change ended it */
  | { kind: "cut-off" };

/** The least that a policy would have to say to allow what was refused, in the words of the wire. */
export interface MissingPermission {
  allow?: string[];
  subnets?: { allow: string[] };
}

/** Bytes as the sandbox sees them: what its programs wrote to and read from their sockets. */
export interface EgressTraffic {
  bytesIn: number;
  bytesOut: number;
}

/** Where a line is in the log. */
export interface EgressPosition {
  /** counts up by one from line to line, from 1 on */
  id: number;
  /** of the first decision that the line stands for */
  at: number;
}

/** A line that the egress process writes. */
export type EgressLogLine =
  | (EgressPosition & EgressDecision & EgressTraffic & { count: number; ended: number })
  /** decisions that were not written down, as there were too many at once */
  | (EgressPosition & { dropped: number });

const counted = z.int().nonnegative();
const text = z.string().exactOptional();
const names = z.array(z.string());
const plainCauses = [
  "allow-all",
  "deny-all",
  "policy",
  "by-subnet-only",
  "wrong-name",
  "special-address",
  "other-resolver",
  "around-rules",
  "unsupported",
  "unknown-policy",
  "interception",
  "cut-off",
] as const;
const cause: z.ZodType<EgressCause> = z.discriminatedUnion("kind", [
  z.object({ kind: z.enum(plainCauses) }),
  z.object({ kind: z.literal("denied-subnet"), subnet: z.string() }),
  z.object({ kind: z.literal("request"), rule: counted.exactOptional() }),
]);
const decision = z.object({
  id: counted,
  at: counted,
  protocol: z.enum(["tcp", "tls", "http", "https", "postgres", "udp", "dns", "icmp", "other"]),
  name: text,
  sni: text,
  address: text,
  port: counted.exactOptional(),
  method: text,
  path: text,
  status: counted.exactOptional(),
  type: text,
  allowed: z.boolean(),
  reason: text,
  failure: text,
  rule: text,
  cause: cause.exactOptional(),
  command: text,
  program: text,
  missing: z
    .object({ allow: names.exactOptional(), subnets: z.object({ allow: names }).exactOptional() })
    .exactOptional(),
  count: counted,
  ended: counted,
  bytesIn: counted,
  bytesOut: counted,
});
const schema: z.ZodType<EgressLogLine> = z.union([z.object({ id: counted, at: counted, dropped: counted }), decision]);

/** with the end of the line */
export function writeEgressLine({ id, ...rest }: EgressLogLine): string {
  return `${JSON.stringify({ id, ...rest })}\n`;
}

/** undefined for what is no line, such as what a process that was killed has left of one; throws NewerFormat */
export function readEgressLine(written: string): EgressLogLine | undefined {
  const value = parsedJson(written);
  checkVersion("the egress log", value, egressLogVersion);
  return schema.safeParse(value).data;
}

/** the id of the line that a text begins with; 0 where it begins with none. Much cheaper than to read the line */
export function egressLineId(beginning: string): number {
  return Number(/^\{"id":(\d+),/.exec(beginning)?.[1] ?? 0);
}

/** the id of the last whole line of a text */
export function lastEgressLineId(end: string): number | undefined {
  const whole = end.slice(0, end.lastIndexOf("\n") + 1);
  const last = [...whole.matchAll(/^\{"id":(\d+),/gm)].at(-1);
  return last && Number(last[1]);
}

/** with texts that are no longer than a line of the log has them */
export function shortenedDecision(said: EgressDecision): EgressDecision {
  const long = Object.entries(said).filter(([, value]) => typeof value === "string" && value.length > longestText);
  if (long.length === 0) return said;
  const cut = long.map(([key, value]) => [key, `${String(value).slice(0, longestText)}…`.toWellFormed()]);
  return { ...said, ...Object.fromEntries(cut) };
}
