/**
 * The messages between the daemon and the egress process: over a unix socket in the runtime's own folder, which only
 * root can enter, one JSON value a line. The egress process begins with the version that it speaks:
 *
 *   {"v":2}
 *
 * It answers each order of the daemon when the order is in force:
 *
 *   {"id":0,"kind":"settings","settings":{"deny":["10.0.0.0/8"],…}}      for all machines         {"id":0}
 *   {"id":1,"kind":"set","machine":"m0","network":{"mode":"custom",…}}   its policy from now on   {"id":1}
 *            "fresh":true  nothing has run in it yet, so nothing of it is open
 *   {"id":2,"kind":"drop","machine":"m0"}                                it has none any more     {"id":2}
 *   {"id":3,"kind":"keep","machines":["m0"]}                             all others have ended    {"id":3}
 *   {"id":4,"kind":"flush","machine":"m0"}                               its log is written       {"id":4}
 *                                                                        it cannot be done        {"id":5,"error":"…"}
 *
 * The egress process in turn asks which commands processes belong to, and does not depend on an answer:
 *
 *   {"questions":[{"question":5,"machine":"m0","ancestry":[[12,10,1763194000123],…]},…]}
 *                                        {"kind":"commands","answers":[{"question":5,"command":"cmd_3f…"},…]}
 *
 * Sandboxes outlive daemons, and the egress process runs as long as one of them does, so a daemon meets processes of
 * other versions. Each side ignores fields that it does not know. Version 1 is version 2 without the first line.
 */

import { parsedJson } from "./json-text.ts";
import {
  byKind,
  fitting,
  flag,
  list,
  looseObject,
  Mismatch,
  number,
  object,
  oneOf,
  optional,
  type Shape,
  text,
  whole,
} from "./shapes.ts";

export const egressControlVersion = 2;
/** the version of a process that does not send its version */
export const silentControlVersion = 1;

/** The operator's settings for the outbound traffic of all sandboxes, independent of their policies. */
export interface EgressSettings {
  /** ranges that sandboxes may reach although they are not public */
  allow: string[];
  /** ranges that no sandbox may reach */
  deny: string[];
  /** resolvers to ask, as "1.1.1.1" or "[2606::1]:53"; empty for the host's current ones */
  resolvers: string[];
  /** PEMs to trust besides the host's own where TLS is intercepted */
  roots: string[];
  /** the proxy for connections to public addresses */
  proxy?: EgressProxy | undefined;
  /** names of the headers of forwarded requests; without them nothing is forwarded */
  forwardHeaders?: { host: string; scheme: string; port: string; path: string; token: string } | undefined;
}

/** An HTTP proxy that opens tunnels (CONNECT). */
export interface EgressProxy {
  /** a name or an address */
  host: string;
  port: number;
  /** the value of Proxy-Authorization: a secret */
  authorization?: string | undefined;
  /** whether it gets names, if they are known, rather than addresses */
  names: boolean;
  /** domains, with their subdomains, and ranges that are reached without it */
  direct: string[];
}

/** A policy as far as this protocol checks it: the daemon has checked the rest before accepting it. */
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

/** A process, its parent, the parent's parent and so on: pid and session inside, and start in ms since 1970. */
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

const proxy = object<EgressProxy>({
  host: text,
  port: whole,
  authorization: optional(text),
  names: flag,
  direct: list(text),
});
const settings = object<EgressSettings>({
  allow: list(text),
  deny: list(text),
  resolvers: list(text),
  roots: list(text),
  proxy: optional(proxy),
  forwardHeaders: optional(object({ host: text, scheme: text, port: text, path: text, token: text })),
});
const rule = looseObject<{ action: object }>({ action: looseObject<object>({}) });
const network = looseObject<GivenPolicy>({
  mode: oneOf(["custom"]),
  domains: list(looseObject<GivenPolicy["domains"][number]>({ domain: text, rules: list(rule) })),
  allowedCidrs: list(text),
  deniedCidrs: list(text),
});
const ofMachine = object<{ id: number; machine: string }>({ id: whole, machine: text });
const daemonLine = byKind<DaemonLine>({
  settings: object({ id: whole, settings }),
  set: object({ id: whole, machine: text, network, fresh: flag }),
  drop: ofMachine,
  flush: ofMachine,
  keep: object({ id: whole, machines: list(text) }),
  commands: object({ answers: list(object<CommandAnswer>({ question: whole, command: optional(text) })) }),
});
const process: Shape<Ancestry[number]> = (value, path) => {
  const [pid, session, startedAt, ...more] = list(number)(value, path);
  if (pid === undefined || session === undefined || startedAt === undefined || more.length > 0)
    throw new Mismatch(path, "three numbers");
  return [pid, session, startedAt];
};
const questions = list(object<CommandQuestion>({ question: whole, machine: text, ancestry: list(process) }));
const egressProcessLines: Shape<EgressProcessLine>[] = [
  object<{ questions: CommandQuestion[] }>({ questions }),
  object<{ id: number; error?: string | undefined }>({ id: whole, error: optional(text) }),
  object<{ v: number }>({ v: whole }),
];

/** throws if the value is nothing that a daemon has written */
export function readEgressSettings(value: unknown): EgressSettings {
  return settings(value, "settings");
}

/** includes the line break */
export function writeControlLine(line: DaemonLine | EgressProcessLine): string {
  return `${JSON.stringify(line)}\n`;
}

/** an unreadable line has the id for the answer, 0 if it has none. The unreadable part may be a secret */
export function readDaemonLine(written: string): { line: DaemonLine } | { unreadable: number } {
  const line = fitting(daemonLine, parsedJson(written));
  return line ? { line } : { unreadable: Number(/^\{"id":(\d+),/.exec(written)?.[1] ?? 0) };
}

/** undefined for an unreadable line */
export function readEgressProcessLine(written: string): EgressProcessLine | undefined {
  const value = parsedJson(written);
  for (const shape of egressProcessLines) {
    const line = fitting(shape, value);
    if (line) return line;
  }
  return undefined;
}

/** describes an egress process of another version, in words that fit after "it" */
export function otherControlVersion(version: number): string | undefined {
  if (version === egressControlVersion) return undefined;
  const age = version > egressControlVersion ? "a newer" : "an older";
  return `is of ${age} version of Sandkeep: it speaks version ${version} of the orders, the daemon ${egressControlVersion}`;
}
