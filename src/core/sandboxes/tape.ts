/**
 * The tape of a sandbox: what happened in it over time, as numbers for equal parts of that time. The answer has a bounded
 * size, however much has happened, and says what it leaves out.
 */

import { eachBounded } from "../../base/concurrency/each-bounded.ts";
import type { Commands } from "../commands/commands.ts";
import { SandkeepError } from "../model/errors.ts";
import type { Owner, Session, Snapshot } from "../model/sandbox.ts";
import type { EgressLogs } from "../network/egress-log.ts";
import type { Parts } from "../ports/store.ts";
import type { Sessions } from "../sessions/sessions.ts";
import type { SnapshotService } from "../snapshots/snapshots.ts";
import type { Sandboxes } from "./sandboxes.ts";

export interface TapeQuery {
  /** default: when the sandbox was made */
  from?: number | undefined;
  /** default: now */
  to?: number | undefined;
  /** most parts of the time */
  buckets: number;
}

export interface TapeBucket {
  commands: {
    started: number;
    /** those that ended with an error */
    failed: number;
    /** those that ran at any moment of it */
    running: number;
  };
  egress: { allowed: number; refused: number };
  snapshots: number;
  /** busy processors on average; unset where none were measured */
  processors?: number;
}

export interface Tape {
  from: number;
  to: number;
  /** the length of a bucket, in ms */
  step: number;
  /** those that ran in this time, newest first */
  sessions: Session[];
  /** those of this time, newest first */
  snapshots: Snapshot[];
  /** those in which something happened, oldest first */
  buckets: (TapeBucket & { at: number })[];
  /** what is missing: sessions and snapshots beyond the limits, connections that the logs no longer have */
  truncated: { sessions: boolean; snapshots: boolean; egress: boolean };
}

interface Services {
  sandboxes: Pick<Sandboxes, "get">;
  sessions: Pick<Sessions, "list" | "samples">;
  commands: Pick<Commands, "tally">;
  egress: Pick<EgressLogs, "tally">;
  snapshots: Pick<SnapshotService, "list">;
}

const mostSessions = 100;
const mostSnapshots = 500;
/** sessions that are read at the same time */
const atOnce = 4;

export class Tapes {
  readonly #services: Services;
  readonly #now: () => number;

  constructor(services: Services, now: () => number) {
    this.#services = services;
    this.#now = now;
  }

  async of(owner: Owner, name: string, query: TapeQuery): Promise<Tape> {
    const { sandbox } = await this.#services.sandboxes.get(owner, name);
    const { from = sandbox.createdAt, to = Math.max(from + 1, this.#now()) } = query;
    if (to <= from) {
      throw new SandkeepError("invalid", `Invalid request: \`to\` should be after \`from\`, which is ${from}.`);
    }
    const step = Math.ceil((to - from) / query.buckets);
    const parts = { from, step, count: Math.ceil((to - from) / step) };
    const [sessions, snapshots] = await Promise.all([
      this.#sessions(owner, sandbox, { from, to }),
      this.#snapshots(owner, sandbox.id, { from, to }),
    ]);
    const buckets = new Buckets(parts);
    for (const { createdAt } of snapshots.items) buckets.at(partOf(parts, createdAt)).snapshots++;
    let isWhole = true;
    await eachBounded(atOnce, sessions.items, async (session) => {
      isWhole = (await this.#fill(owner, session, buckets)) && isWhole;
    });
    return {
      ...{ from, to, step },
      sessions: sessions.items,
      snapshots: snapshots.items,
      buckets: buckets.all(),
      truncated: { sessions: sessions.isCut, snapshots: snapshots.isCut, egress: !isWhole },
    };
  }

  async #sessions(owner: Owner, { id, name }: { id: string; name: string }, { from, to }: Span) {
    const query = { sandboxName: name, before: { at: to }, limit: mostSessions, order: "desc" as const };
    const { items, next } = await this.#services.sessions.list(owner, query);
    // A deleted sandbox may have had the same name.
    const own = items.filter((session) => session.sandboxId === id && (endOf(session) ?? to) >= from);
    return { items: own, isCut: next !== undefined && own.length === items.length };
  }

  async #snapshots(owner: Owner, sandboxId: string, { from, to }: Span) {
    const span = { after: { at: from - 1 }, before: { at: to } };
    const query = { sandboxId, ...span, there: true, limit: mostSnapshots, order: "desc" as const };
    const { items, next } = await this.#services.snapshots.list(owner, query);
    return { items, isCut: next !== undefined };
  }

  /** whether all connections of the session are counted */
  async #fill(owner: Owner, session: Session, buckets: Buckets): Promise<boolean> {
    const { parts } = buckets;
    const { commands, egress, sessions } = this.#services;
    const [tally, connections, samples] = await Promise.all([
      commands.tally(owner, session.id, parts),
      egress.tally(owner, session.id, parts),
      sessions.samples(owner, session.id, { from: parts.from, to: parts.from + parts.step * parts.count }),
    ]);
    buckets.addCommands(tally, endOf(session));
    for (const { part, allowed, refused } of connections.parts) {
      const { egress: counts } = buckets.at(part);
      counts.allowed += allowed;
      counts.refused += refused;
    }
    for (const [part, some] of Map.groupBy(samples, ({ at }) => partOf(parts, at))) {
      const busy = some.reduce((sum, { processors }) => sum + processors, 0) / some.length;
      // A moment at the end belongs to no part.
      if (part < parts.count) buckets.at(part).processors = busy;
    }
    return connections.isWhole;
  }
}

interface Span {
  from: number;
  to: number;
}

function endOf({ stoppedAt, abortedAt }: Session): number | undefined {
  return stoppedAt ?? abortedAt;
}

function partOf({ from, step }: Parts, at: number): number {
  return Math.floor((at - from) / step);
}

class Buckets {
  readonly parts: Parts;
  readonly #buckets = new Map<number, TapeBucket>();

  constructor(parts: Parts) {
    this.parts = parts;
  }

  at(part: number): TapeBucket {
    const bucket = this.#buckets.get(part) ?? {
      commands: { started: 0, failed: 0, running: 0 },
      egress: { allowed: 0, refused: 0 },
      snapshots: 0,
    };
    this.#buckets.set(part, bucket);
    return bucket;
  }

  /** a command without an end runs until that of its session */
  addCommands({ running, parts }: Awaited<ReturnType<Commands["tally"]>>, endedAt: number | undefined): void {
    const changes = new Map(parts.map((each) => [each.part, each]));
    const last = endedAt === undefined ? this.parts.count - 1 : partOf(this.parts, endedAt);
    let left = running;
    for (let part = 0; part < this.parts.count; part++) {
      const { started = 0, ended = 0, failed = 0 } = changes.get(part) ?? {};
      const most = left + started;
      left = most - ended;
      const isOver = part > last;
      if (started + failed === 0 && (most === 0 || isOver)) continue;
      const { commands } = this.at(part);
      commands.started += started;
      commands.failed += failed;
      if (!isOver) commands.running += most;
    }
  }

  all(): (TapeBucket & { at: number })[] {
    const { from, step } = this.parts;
    return [...this.#buckets]
      .toSorted(([one], [other]) => one - other)
      .map(([part, bucket]) => ({ at: from + part * step, ...bucket }));
  }
}
