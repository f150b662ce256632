/**
 * The narrowest policy that allows what an egress log shows. Names are exact, and each address is a range of one.
 * Programs in a sandbox cause these lines, so an address that is not public is only noted, never suggested.
 */

import type { EgressDecision } from "../../protocols/egress-log.ts";
import type { EgressLine } from "./egress-log.ts";
import { type CustomPolicy, hostOfQuestion } from "./network-policy.ts";

export interface PolicySuggestion {
  policy: CustomPolicy;
  /** sentences about what the policy lacks, and why it has unexpected entries */
  notes: string[];
}

/** most names, and most subnets, of a policy in the API */
const mostEntries = 1000;
const mostNotes = 50;
/** types of questions that programs ask in order to connect */
const connecting = ["A", "AAAA", "CNAME", "SRV", "MX", "TXT"];

export function suggestPolicy(lines: Iterable<EgressLine>): PolicySuggestion {
  const names = new Set<string>();
  const subnets = new Set<string>();
  const notes = new Set<string>();
  let unseen = 0;
  for (const line of lines) {
    if ("dropped" in line) unseen += line.dropped;
    else if ("forgotten" in line) unseen += line.forgotten;
    else {
      const { name, subnet, note } = needOf(line);
      if (name !== undefined && isDomain(name)) names.add(name);
      else if (name !== undefined) notes.add(`"${name}" is not in this policy: it is not a valid domain name`);
      if (subnet !== undefined) subnets.add(subnet);
      if (note !== undefined) notes.add(note);
    }
  }
  if (unseen > 0)
    notes.add(`At least ${unseen} decisions are not in the log: what they were about is not in this policy`);
  const policy: CustomPolicy = {
    mode: "custom",
    domains: bounded(names, "names", notes).map((domain) => ({ domain, rules: [] })),
    allowedCidrs: bounded(subnets, "subnets", notes),
    deniedCidrs: [],
  };
  return { policy, notes: shortened([...notes]) };
}

interface Need {
  name?: string;
  subnet?: string;
  note?: string;
}

/** the name or subnet that a policy needs to allow this */
function needOf(decision: EgressDecision): Need {
  const { protocol, name, sni, address = "", port, allowed, reason = "", rule, cause, missing, type = "" } = decision;
  // A failed lookup is often a name that a program made up, with a search domain at its end.
  if (protocol === "dns" && decision.failure !== undefined) return {};
  if (cause?.kind === "denied-subnet") return { note: `${address} stays denied: ${reason}` };
  if (protocol === "dns")
    return name !== undefined && connecting.includes(type) ? { name: hostOfQuestion(name, type) } : {};
  // a request belongs to a connection, and the connection's line has its need
  if (protocol === "https") {
    const ruled = cause?.kind === "request" && cause.rule !== undefined;
    return ruled ? { note: `The rules for ${name} are not repeated here: add them again` } : {};
  }
  const subnet = `${address}/${address.includes(":") ? 128 : 32}`;
  if (missing?.subnets && sni !== undefined) return { subnet, note: `${subnet} is for ${where(sni, port)}: ${reason}` };
  if (sni !== undefined && (allowed || missing)) return { name: sni };
  // cut off by a policy change: an earlier line allowed it
  if (cause?.kind === "cut-off") return {};
  // Written by an egress process of an older version.
  if (!allowed && !missing && !cause)
    return { note: `${where(sni ?? address, port)} is not in this policy: ${reason}` };
  if ((!allowed && !missing) || protocol === "icmp" || protocol === "other")
    return { note: `${where(sni ?? address, port)} is refused under every policy: ${reason}` };
  const because = protocol === "tcp" && (cause?.kind ?? rule) === "deny-all" ? unread : why[protocol];
  return { subnet, note: `${subnet} is for ${where(name ?? address, port)}: ${because}` };
}

const why: Record<Exclude<EgressDecision["protocol"], "dns" | "https" | "icmp" | "other">, string> = {
  http: "plain HTTP is allowed by subnet only; with https its name would do",
  tls: "its TLS names no host, so it is allowed by subnet only",
  postgres: "its TLS names no host, so it is allowed by subnet only",
  tcp: "it is neither TLS nor HTTP, so it is allowed by subnet only",
  udp: "datagrams are allowed by subnet only",
};

const unread = "under deny-all its protocol stays unknown; for HTTPS its name would be enough";

/**
 * whether the API accepts it as a domain, wildcards aside; an address is not one, though programs may use it as a name
 */
function isDomain(name: string): boolean {
  const label = "[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?";
  return new RegExp(`^${label}(\\.${label})*$`).test(name) && !/(^|\.)[0-9]+$/.test(name);
}

function where(host: string, port: number | undefined): string {
  return `${host.includes(":") ? `[${host}]` : host}${port === undefined ? "" : ` port ${port}`}`;
}

function bounded(entries: Set<string>, what: string, notes: Set<string>): string[] {
  if (entries.size > mostEntries)
    notes.add(`There are ${entries.size} ${what}, of which a policy takes ${mostEntries}`);
  return [...entries].slice(0, mostEntries).sort();
}

function shortened(notes: string[]): string[] {
  if (notes.length <= mostNotes) return notes;
  return [...notes.slice(0, mostNotes), `There are ${notes.length - mostNotes} more of these`];
}
