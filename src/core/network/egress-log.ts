/**
 * A session's outbound connections and whether each was allowed. Callers read the log from any position, or follow it
 * while the session runs; it is kept as long as the session's output. It also has the bytes to and from each host and
 * through each port.
 */

import type { EgressLogLine, EgressPosition, EgressTraffic } from "../../protocols/egress-log.ts";
import type { Context } from "../context.ts";
import { SandkeepError } from "../model/errors.ts";
import type { Caller, Owner, Session, Totals } from "../model/sandbox.ts";
import type { EgressJournal } from "../ports/runtime.ts";
import type { Parts } from "../ports/store.ts";
import type { Sessions } from "../sessions/sessions.ts";
import { isOver } from "../sessions/states.ts";
import { EgressTallies, type EgressTally } from "./egress-tally.ts";
import { type NewestEgressQuery, newestEgress, type SessionEgressLine } from "./newest-egress.ts";
import { type PolicySuggestion, suggestPolicy } from "./policy-suggestion.ts";

export type EgressLine =
  | EgressLogLine
  /** number of lines up to this one that are no longer kept */
  | (EgressPosition & { forgotten: number });

export interface HostTraffic extends EgressTraffic {
  /** a name, or an address without a name */
  host: string;
  /** connections, or flows of datagrams */
  connections: number;
}

/** traffic from outside to a port, and the answers */
export interface PortTraffic extends EgressTraffic {
  port: number;
  connections: number;
}

export interface EgressPage {
  session: Session;
  lines: EgressLine[];
  /** position to continue from */
  next: number;
  /** whether more lines exist already */
  more: boolean;
  /** sorted by bytes, most first */
  hosts: HostTraffic[];
  ports: PortTraffic[];
  /** bytes of whole packets, counted by the kernel */
  totals: Pick<Totals, "ingressBytes" | "egressBytes">;
}

/** newest sessions of a project whose logs are read, besides those that run */
const mostSessions = 500;
/** lines per read when all are needed */
const batch = 1000;

export class EgressLogs {
  readonly #context: Context;
  readonly #sessions: Sessions;
  readonly #booted: (sessionId: string) => Promise<void>;
  readonly #tallies = new EgressTallies();

  constructor(context: Context, sessions: Sessions, booted: (sessionId: string) => Promise<void>) {
    this.#context = context;
    this.#sessions = sessions;
    this.#booted = booted;
  }

  /** lines after a position, oldest first; includes every decision made before the call */
  async page(caller: Caller, sessionId: string, options: { after: number; limit: number }): Promise<EgressPage> {
    const { session, journal } = await this.#find(caller, sessionId);
    const [{ lines, more } = { lines: [], more: false }, hosts = [], ports = [], totals] = await Promise.all([
      journal?.lines(options),
      journal?.hosts(),
      journal?.ports(),
      this.#sessions.usage(caller, sessionId),
    ]);
    const next = lines.at(-1)?.id ?? options.after;
    return {
      session,
      lines,
      next,
      more,
      hosts: hosts.toSorted((one, other) => byBytes(one, other) || (one.host < other.host ? -1 : 1)),
      ports: ports.toSorted((one, other) => byBytes(one, other) || one.port - other.port),
      totals,
    };
  }

  /** lines after a position and new ones, until the session has ended or the signal aborts */
  async follow(
    caller: Caller,
    sessionId: string,
    options: { after: number; signal?: AbortSignal },
  ): Promise<AsyncIterable<EgressLine>> {
    await this.#sessions.get(caller, sessionId);
    await this.#booted(sessionId);
    const { journal } = await this.#find(caller, sessionId);
    return journal?.follow(options) ?? nothing();
  }

  /** lines of all sandboxes of the project, newest first: of those that run, and of the newest sessions */
  async newest({ projectId }: Owner, query: NewestEgressQuery): Promise<{ items: SessionEgressLine[]; next?: string }> {
    const { store, runtime } = this.#context;
    const open = (await store.openSessions()).filter((session) => session.projectId === projectId);
    const { items } = await store.listSessions({ projectId, limit: mostSessions, order: "desc" });
    const sessions = new Map([...open, ...items].map((session) => [session.id, session]));
    const logs = [...sessions.values()].flatMap((session) => {
      const journal = runtime.egress(session.id);
      return journal ? [{ session, journal }] : [];
    });
    return newestEgress(logs, query);
  }

  /** how many connections were allowed and refused in each part of a time; of a log that is gone, none */
  async tally(caller: Caller, sessionId: string, parts: Parts): Promise<EgressTally> {
    const { state, startedAt } = await this.#sessions.get(caller, sessionId);
    const journal = this.#context.runtime.egress(sessionId);
    if (!journal) return { parts: [], isWhole: !isOver(state) || startedAt === undefined };
    return this.#tallies.of(sessionId, journal, parts);
  }

  /** the narrowest policy that allows what the log shows */
  async suggestion(caller: Caller, sessionId: string): Promise<PolicySuggestion & { session: Session }> {
    const { session, journal } = await this.#find(caller, sessionId);
    const lines: EgressLine[] = [];
    for (let more = journal !== undefined, after = 0; journal && more; ) {
      const page = await journal.lines({ after, limit: batch });
      lines.push(...page.lines);
      more = page.more;
      after = lines.at(-1)?.id ?? after;
    }
    return { session, ...suggestPolicy(lines) };
  }

  async #find(caller: Caller, id: string): Promise<{ session: Session; journal: EgressJournal | undefined }> {
    const session = await this.#sessions.get(caller, id);
    const journal = this.#context.runtime.egress(id);
    // a session that never ran has no connections
    if (!journal && isOver(session.state) && session.state !== "failed") {
      throw new SandkeepError("gone", `The egress log of session "${id}" is no longer kept`);
    }
    return { session, journal };
  }
}

function byBytes(one: EgressTraffic, other: EgressTraffic): number {
  return other.bytesIn + other.bytesOut - (one.bytesIn + one.bytesOut);
}

async function* nothing(): AsyncGenerator<EgressLine> {}
