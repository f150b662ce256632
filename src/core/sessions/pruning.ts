/**
 * Deletes old sessions of every project: by the time since their end, and beyond a number of newest ones. With a
 * session it deletes its commands and their output, its tags and its deleted snapshots. A deleted sandbox is removed
 * with its last session.
 *
 * Whatever the settings say, these stay:
 *   a session that is not over, or is not yet in its sandbox's totals
 *   the newest session of a sandbox that exists
 *   a session with a snapshot that exists, that a sandbox resumes from, or whose files are still there
 *   a session with an open command or an attached drive
 *   a session that ended, or whose sandbox was deleted, within the last hour: a caller may still work with it
 *
 * Of a deleted team all other sessions go.
 *
 * The work runs in steps of a few milliseconds with pauses between them, because with SQLite every request waits while
 * a step runs. With PostgreSQL other requests do not wait, and a step mostly consists of round trips. So the store says how
 * many sessions a step should have at least.
 */

import { SharedRun } from "../../base/concurrency/single-flight.ts";
import type { Context } from "../context.ts";
import type { Team } from "../model/sandbox.ts";
import type { PrunableSession, PrunePage, PruneQuery } from "../ports/store.ts";
import type { Descriptions } from "../recovery/descriptions.ts";

/** how long an ended session stays in any case, in ms */
const settledAfter = 60 * 60_000;
/** most rows read in one step */
const rowsAtOnce = 50;
/** target duration of a step and the shortest pause after it, in ms; and most sessions deleted in one */
const goal = 1;
const pause = 2;
const mostAtOnce = 50;

export class Pruning {
  readonly #context: Context;
  readonly #descriptions: Pick<Descriptions, "forgetMachine">;
  readonly #rounds = new SharedRun<number>();
  #closed = false;
  /** estimated duration per session, in ms */
  #each = 0.5;

  constructor(context: Context, descriptions: Pick<Descriptions, "forgetMachine">) {
    this.#context = context;
    this.#descriptions = descriptions;
  }

  /** checks all projects; returns the number of deleted sessions. Concurrent calls share one round */
  round(): Promise<number> {
    return this.#rounds.run(() => this.#round());
  }

  /** lets a running round end after its current step */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#rounds.current?.catch(() => undefined);
  }

  async #round(): Promise<number> {
    const { store, runtime, limits } = this.#context;
    const deleted = await store.listTeams({ deleted: true });
    const keepsAll = limits.sessionRetention === 0 && limits.sessionsKept === 0;
    if (keepsAll && deleted.length === 0) return 0;
    // Otherwise a session that failed to boot would not be in the totals until the next start.
    for (const id of await store.uncountedSessions()) await store.addTotals(id);
    const files = new Set((await runtime.snapshots.list()).map(({ id }) => id));
    let gone = 0;
    for (const team of keepsAll ? [] : await store.listTeams()) gone += await this.#team(team, files);
    for (const team of deleted) gone += await this.#team(team, files);
    return gone;
  }

  async #team({ id: teamId, deletedAt }: Team, files: Set<string>): Promise<number> {
    const { store, now, limits } = this.#context;
    const { sessionRetention, sessionsKept } = limits;
    let gone = 0;
    for (const { id } of await store.listProjects(teamId)) {
      const endedBefore = deletedAt !== undefined ? now() : sessionRetention > 0 ? now() - sessionRetention : undefined;
      const upTo = sessionsKept > 0 ? await store.sessionBehind(id, sessionsKept) : undefined;
      gone += await this.#project(id, { ...(endedBefore !== undefined && { endedBefore }), upTo }, files);
    }
    return gone;
  }

  async #project(
    projectId: string,
    rule: Pick<PruneQuery, "endedBefore" | "upTo">,
    files: Set<string>,
  ): Promise<number> {
    const { store, now } = this.#context;
    let gone = 0;
    for (let after: number | undefined; !this.#closed; ) {
      const settledBefore = now() - settledAfter;
      const query = { projectId, ...rule, settledBefore, after, limit: rowsAtOnce };
      const page = await this.#step(() => store.prunableSessions(query));
      gone += await this.#prune(page, files);
      if (page.next === undefined) break;
      after = page.next;
    }
    if (gone > 0) await store.compactCounts(projectId);
    return gone;
  }

  async #prune({ sessions, atLeast = 1 }: PrunePage, files: Set<string>): Promise<number> {
    const { store, runtime } = this.#context;
    const isThere = ({ id, runtimeSnapshots }: PrunableSession) =>
      runtime.machine(id) !== undefined || runtimeSnapshots.some((snapshot) => files.has(snapshot));
    const left = without(sessions, isThere).map(({ id }) => id);
    let gone = 0;
    while (left.length > 0 && !this.#closed) {
      const fitting = Math.min(mostAtOnce, Math.floor(goal / Math.max(this.#each, 0.01)));
      const some = left.splice(0, Math.max(atLeast, fitting));
      // Before the row: the quarantine would keep output of a session that the database does not know.
      for (const id of some) if (runtime.end(id)) await this.#descriptions.forgetMachine(id);
      gone += await this.#step(() => store.pruneSessions(some), some.length);
    }
    return gone;
  }

  /** runs a step, pauses as long so that others get their turn, and updates the estimated duration per session */
  async #step<T>(work: () => Promise<T>, sessions = 0): Promise<T> {
    const { steady = this.#context.now } = this.#context;
    const began = steady();
    const result = await work();
    // A very slow step waited for a processor or a disk, so it says little about the next.
    if (sessions > 0) this.#each += (Math.min((steady() - began) / sessions, 2 * this.#each) - this.#each) / 8;
    await new Promise((resolve) => setTimeout(resolve, Math.max(pause, steady() - began)));
    return result;
  }
}

/** removes sessions that stay, and those after them in the list with the same millisecond */
function without(sessions: PrunableSession[], stays: (session: PrunableSession) => boolean): PrunableSession[] {
  let kept: number | undefined;
  return sessions.filter((session) => {
    if (stays(session)) kept = session.createdAt;
    return session.createdAt !== kept;
  });
}
