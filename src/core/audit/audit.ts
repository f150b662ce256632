/**
 * The audit: an entry for each call that changes something, also for those that were refused or failed.
 *
 * Calls do not wait for their entry. Entries are collected for a moment and stored together, in order; a crash of the
 * daemon loses at most those of the last moment. While the database is away they wait in memory, up to a limit.
 */

import { SharedRun } from "../../base/concurrency/single-flight.ts";
import type { Context } from "../context.ts";
import type { AuditEntry, Origin } from "../model/audit.ts";
import { isSandkeepError, SandkeepError } from "../model/errors.ts";
import type { Caller } from "../model/sandbox.ts";
import { requireAdmin, requireUnlimited } from "../model/scope.ts";
import type { AuditFilter } from "../ports/audit-records.ts";
import type { Page, PageQuery } from "../ports/store.ts";
import { type Action, actions, type Ended, type Recorded, recorded } from "./actions.ts";

/** how long entries are collected, in ms */
const collected = 100;
/** most entries stored in one statement, and most that wait */
const mostAtOnce = 100;
const mostWaiting = 10_000;
/** most characters of a text that callers choose, such as a path */
const longestText = 256;
const pruningRound = 10 * 60_000;
/** entries deleted in one step, and the pause after it in ms: with SQLite every request waits while a step runs */
const prunedAtOnce = 500;
const pause = 5;

type AuditContext = Pick<Context, "store" | "ids" | "now" | "limits" | "logError" | "origin">;

interface Call {
  caller: Caller;
  action: Action;
  /** those after the caller */
  args: readonly unknown[];
  origin: Origin;
}

/** Whose entries are listed, and which. */
export interface AuditChoice {
  allTeams?: boolean;
  /** an action such as "sandbox.create", or its first part for all actions on such a thing */
  action?: string;
}

export class Audit {
  readonly #context: AuditContext;
  /** begins the ids of this run, which end with a counter: entries of the same millisecond stay in order */
  readonly #run: string;
  #made = 0;
  #waiting: AuditEntry[] = [];
  #lost = 0;
  #timer: NodeJS.Timeout | undefined;
  #round: NodeJS.Timeout | undefined;
  readonly #writes = new SharedRun<void>();
  readonly #prunes = new SharedRun<void>();
  #closed = false;

  constructor(context: AuditContext) {
    this.#context = context;
    this.#run = context.ids.run();
  }

  /** the services, whose changing calls get an entry each */
  over<S extends Recorded>(services: S): S {
    const begin = (caller: Caller, action: Action, args: readonly unknown[]) => {
      // Not at the end: a stream may end outside of the request that began it.
      const origin = this.#context.origin?.() ?? {};
      return (ended: Ended) => this.#record({ caller, action, args, origin, ...ended });
    };
    const names = Object.keys(actions) as (keyof Recorded)[]; // it has no other members
    const all = names.map((name) => [name, recorded<object>(services[name], actions[name], begin)]);
    return { ...services, ...Object.fromEntries(all) };
  }

  /** starts the deletion of old entries */
  open(): void {
    const prune = () => void this.prune().catch(this.#context.logError);
    prune();
    this.#round = setInterval(prune, pruningRound).unref();
  }

  /** stores what waits */
  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#round);
    await this.#prunes.current?.catch(() => undefined);
    await this.#store();
  }

  /** entries of the caller's team or, for an admin key, of all teams; the caller's own earlier calls are there */
  async page(
    caller: Caller,
    { allTeams = false, action, ...query }: PageQuery & Omit<AuditFilter, "actions"> & AuditChoice,
  ): Promise<Page<AuditEntry>> {
    if (allTeams) requireAdmin(caller, "the audit of all teams");
    const { readOnly: _, ...limits } = caller.scope ?? {};
    requireUnlimited({ ...caller, scope: limits }, "the audit");
    const actions = action === undefined ? undefined : actionsCalled(action);
    await this.#store();
    return this.#context.store.listAudit({
      ...query,
      ...(actions && { actions }),
      ...(!allTeams && { teamId: caller.teamId }),
    });
  }

  /** deletes entries that are too old or too many */
  prune(): Promise<void> {
    return this.#prunes.run(async () => {
      const { store, now, limits } = this.#context;
      const { auditRetention, auditKept } = limits;
      if (auditRetention === 0 && auditKept === 0) return;
      const teams = [...(await store.listTeams()), ...(await store.listTeams({ deleted: true }))];
      for (const { id: teamId } of teams) {
        for (let deleted = 1; deleted > 0 && !this.#closed; ) {
          deleted = await store.pruneAudit({
            teamId,
            ...(auditRetention > 0 && { from: now() - auditRetention }),
            ...(auditKept > 0 && { newest: auditKept }),
            limit: prunedAtOnce,
          });
          if (deleted > 0) await new Promise((resolve) => setTimeout(resolve, pause));
        }
      }
    });
  }

  #record({ caller, action, args, origin: { wire, address }, result, error }: Call & Ended): void {
    const thing = action.about(args, result);
    if (!thing) return;
    const projectId: unknown = Reflect.get(caller, "projectId");
    this.#waiting.push({
      id: `aud_${this.#run}${(this.#made++).toString(36).padStart(8, "0")}`,
      at: this.#context.now(),
      teamId: caller.teamId,
      ...(typeof projectId === "string" && { projectId }),
      ...(caller.keyId !== undefined && { keyId: caller.keyId }),
      ...(wire !== undefined && { wire }),
      ...(address && { address }),
      action: action.name,
      ...(thing.target !== undefined && { target: shortened(thing.target) }),
      ...(thing.sessionId !== undefined && { sessionId: shortened(thing.sessionId) }),
      outcome: error === undefined ? "done" : isSandkeepError(error) ? error.code : "internal",
    });
    if (this.#waiting.length > mostWaiting) this.#lose();
    this.#storeIn(collected);
  }

  #storeIn(ms: number): void {
    // A failed attempt is made again, and its entries stay.
    this.#timer ??= setTimeout(() => void this.#store().catch(() => undefined), ms).unref();
  }

  /** stores everything that waits at the time of the call */
  async #store(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    // A run that is under way may have begun before the newest entries.
    await this.#writes.current?.catch(() => undefined);
    if (this.#waiting.length > 0) await this.#writes.run(() => this.#write());
  }

  async #write(): Promise<void> {
    const { store, logError } = this.#context;
    while (this.#waiting.length > 0) {
      const some = this.#waiting.slice(0, mostAtOnce);
      try {
        await store.addAudit(some);
      } catch (error) {
        if (!this.#closed) this.#storeIn(retryAfter);
        throw error;
      }
      const stored = new Set(some);
      this.#waiting = this.#waiting.filter((entry) => !stored.has(entry));
    }
    if (this.#lost === 0) return;
    logError(new Error(`${this.#lost} entries of the audit are lost: the database was away for too long`));
    this.#lost = 0;
  }

  #lose(): void {
    this.#waiting.shift();
    this.#lost++;
  }
}

/** an action itself, or all on a kind of thing; entries of earlier versions may have actions that this one lacks */
function actionsCalled(action: string): string[] {
  if (action.includes(".")) return [action];
  const all = Object.values(actions).flatMap((each) => Object.values(each).map((known) => known?.name ?? ""));
  const found = [...new Set(all.filter((name) => name.startsWith(`${action}.`)))];
  if (found.length > 0) return found;
  const kinds = [...new Set(all.map((name) => name.split(".")[0] ?? ""))].filter((kind) => kind !== "").sort();
  throw new SandkeepError("invalid", `Cannot list actions on "${action}": there are those on ${kinds.join(", ")}`);
}

/** wait after the database refused entries, in ms */
const retryAfter = 1000;

function shortened(text: string): string {
  return text.length > longestText ? `${text.slice(0, longestText)}…` : text;
}
