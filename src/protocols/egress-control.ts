/**
 * What the daemon and the egress process say to each other: over a unix socket in the runtime's own folder, which nobody
 * but root can enter, one JSON value a line. The egress process greets with the version that it speaks:
 *
 *   {"v":2}
 *
 * Each order of the daemon is answered when it is in force:
 *
 *   {"id":0,"kind":"settings","settings":{"deny":["10.0.0.0/8"],…}}      for all machines         {"id":0}
 *   {"id":1,"kind":"set","machine":"m0","network":{"mode":"custom",…}}   its policy from now on   {"id":1}
 *            "fresh":true  nothing has run in it yet, so nothing of it is open
 *   {"id":2,"kind":"drop","machine":"m0"}                                it has none any more     {"id":2}
 *   {"id":3,"kind":"keep","machines":["m0"]}                             all others have ended    {"id":3}
 *   {"id":4,"kind":"flush","machine":"m0"}                               its log is written       {"id":4}
 *                                                                        what cannot be done      {"id":5,"error":"…"}
 *
 * The egress process asks in turn which commands processes belong to, and takes silence for an answer:
 *
 *   {"questions":[{"question":5,"machine":"m0","ancestry":[[12,10,1763194000123],…]},…]}
 *                                        {"kind":"commands","answers":[{"question":5,"command":"cmd_3f…"},…]}
 *
 * Sandboxes outlive daemons, and the egress process runs as long as one of them does, so a daemon meets processes of
 * other versions. Each side passes over fields that it does not know. Version 1 is version 2 without the greeting.
 */

import { z } from "zod";
import { parsedJson } from "./json-text.ts";

export const egressControlVersion = 2;
/** of a process that does not greet */
export const silentControlVersion = 1;

/** What the operator says about the way out of all sandboxes, whatever the policy of each says. */
export interface EgressSettings {
  /** ranges that sandboxes may reach although they are not public */
  allow: string[];
  /** ranges that no sandbox may reach */
  deny: string[];
  /** resolvers to ask, as "1.1.1.1" or "[2606::1]:53"; none for those of the host, as they are at any time */
  resolvers: string[];
  /** PEMs to believe besides the host's own where TLS is opened */
  roots: string[];
  /** what connections to public addresses go through */
  proxy?: EgressProxy | undefined;
  /** names of the headers of forwarded requests; without them nothing is forwarded */
  forwardHeaders?: { host: string; scheme: string; port: string; path: string; token: string } | undefined;
}

/** An HTTP proxy that opens tunnels (CONNECT). */
export interface EgressProxy {
  /** a name or an address */
  host: string;
  port: number;
  /** what it wants to hear in Proxy-Authorization: a secret */
  authorization?: string | undefined;
  /** whether it is asked for names, where they are known, rather than for addresses */
  names: boolean;
  /** domains, with all below them, and ranges that are reached without it */
  direct: string[];
}

/** A policy as far as it is checked on its way: the daemon has checked the rest of it before it took it. */
export interface GivenPolicy {
  mode: "custom";
  domains: { domain: string; rules: { action: object }[] }[];
  allowedCidrs: string[];
  deniedCidrs: string[];
}

export type EgressOrder =
  | { kind: "settings"; settings: EgressSettings }
  | { kind: "set"; machine: string; network: GivenPolicy; fresh: boolean }
  | { kind: "drop"; machine: string }
  | { kind: "keep"; machines: string[] }
  | { kind: "flush"; machine: string };

/** A process and its parent, the parent's parent and so on: pid and session inside, and start in ms since 1970. */
export type Ancestry = [pid: number, session: number, startedAt: number][];

export interface CommandQuestion {
  question: number;
  machine: string;
  ancestry: Ancestry;
}

export interface CommandAnswer {
  question: number;
  command?: string | undefined;
}

/** A line of the daemon. */
export type DaemonLine = ({ id: number } & EgressOrder) | { kind: "commands"; answers: CommandAnswer[] };

/** A line of the egress process. */
export type EgressProcessLine =
  | { v: number }
  | { id: number; error?: string | undefined }
  | { questions: CommandQuestion[] };

export const egressSettings: z.ZodType<EgressSettings> = z.object({
  allow: z.array(z.string()),
  deny: z.array(z.string()),
  resolvers: z.array(z.string()),
  roots: z.array(z.string()),
  proxy: z
    .object({
      host: z.string(),
      port: z.int(),
      authorization: z.string().optional(),
      names: z.boolean(),
      direct: z.array(z.string()),
    })
    .optional(),
  forwardHeaders: z
    .object({ host: z.string(), scheme: z.string(), port: z.string(), path: z.string(), token: z.string() })
    .optional(),
});

const network = z.looseObject({
  mode: z.literal("custom"),
  domains: z.array(z.looseObject({ domain: z.string(), rules: z.array(z.looseObject({ action: z.looseObject({}) })) })),
  allowedCidrs: z.array(z.string()),
  deniedCidrs: z.array(z.string()),
});
const daemonLine: z.ZodType<DaemonLine> = z.discriminatedUnion("kind", [
  z.object({ id: z.int(), kind: z.literal("settings"), settings: egressSettings }),
  z.object({ id: z.int(), kind: z.literal("set"), machine: z.string(), network, fresh: z.boolean() }),
  z.object({ id: z.int(), kind: z.literal("drop"), machine: z.string() }),
  z.object({ id: z.int(), kind: z.literal("flush"), machine: z.string() }),
  z.object({ id: z.int(), kind: z.literal("keep"), machines: z.array(z.string()) }),
  z.object({
    kind: z.literal("commands"),
    answers: z.array(z.object({ question: z.int(), command: z.string().optional() })),
  }),
]);
const question = z.object({
  question: z.int(),
  machine: z.string(),
  ancestry: z.array(z.tuple([z.number(), z.number(), z.number()])),
});
const egressProcessLine: z.ZodType<EgressProcessLine> = z.union([
  z.object({ questions: z.array(question) }),
  z.object({ id: z.int(), error: z.string().optional() }),
  z.object({ v: z.int() }),
]);

/** with the end of the line */
export function writeControlLine(line: DaemonLine | EgressProcessLine): string {
  return `${JSON.stringify(line)}\n`;
}

/** what cannot be understood has the id under which it can be answered, 0 if none. What is wrong may be a secret */
export function readDaemonLine(written: string): { line: DaemonLine } | { unreadable: number } {
  const line = daemonLine.safeParse(parsedJson(written)).data;
  return line ? { line } : { unreadable: Number(/^\{"id":(\d+),/.exec(written)?.[1] ?? 0) };
}

/** undefined for what cannot be understood */
export function readEgressProcessLine(written: string): EgressProcessLine | undefined {
  return egressProcessLine.safeParse(parsedJson(written)).data;
}

/** what is to be said of an egress process that speaks another version, as words that fit after "it" */
export function otherControlVersion(version: number): string | undefined {
  if (version === egressControlVersion) return undefined;
  const age = version > egressControlVersion ? "a newer" : "an older";
  return `is of ${age} version of Sandkeep: it speaks version ${version} of the orders, the daemon ${egressControlVersion}`;
}
