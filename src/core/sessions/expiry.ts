/**
 * Ends or pauses sessions when their time is over. The store knows when the next one is due, so a restart loses nothing, and a
 * session that was extended meanwhile is simply not due.
 */

import { durationInWords } from "../../base/duration-in-words.ts";
import type { Context } from "../context.ts";
import { isSandkeepError } from "../model/errors.ts";
import type { Session } from "../model/sandbox.ts";
import type { Quarantine } from "../recovery/quarantine.ts";
import type { Retention } from "../snapshots/retention.ts";
import type { Activity } from "./activity.ts";
import type { Endings } from "./end.ts";
import type { Pauses } from "./pauses.ts";
import type { Pruning } from "./pruning.ts";

/** most stops at once; more would not finish sooner, and would slow down requests */
export const stopsAtOnce = 8;
/** longest wait between two checks in ms, as the clock may be set or another daemon may change something */
const longest = 30_000;
/** wait after a failed read of the store, in ms */
const retryAfter = 1000;
/** how long a stop counts toward `stopsAtOnce`, in ms */
const longestStop = 30_000;
const retentionRound = 60_000;
const quarantineRound = 10 * 60_000;
const pruningRound = 10 * 60_000;

export interface ExpiryOptions {
  context: Context;
  endings: Endings;
  retention: Retention;
  activity: Activity;
  pauses: Pauses;
  quarantine: Quarantine;
  pruning: Pruning;
}

export class Expiry {
  readonly #context: Context;
  readonly #endings: Endings;
  readonly #retention: Retention;
  readonly #activity: Activity;
  readonly #pauses: Pauses;
  readonly #quarantine: Quarantine;
  readonly #pruning: Pruning;
  #timer: NodeJS.Timeout | undefined;
  readonly #rounds: NodeJS.Timeout[] = [];
  /** rounds that run */
  readonly #underWay = new Set<Promise<unknown>>();
  /** sessions that are being stopped because they expired */
  readonly #stopping = new Set<string>();
  #working: Promise<void> | undefined;
  #again = false;
  #closed = false;

  constructor({ context, endings, retention, activity, pauses, quarantine, pruning }: ExpiryOptions) {
    this.#context = context;
    this.#endings = endings;
    this.#retention = retention;
    this.#activity = activity;
    this.#pauses = pauses;
    this.#quarantine = quarantine;
    this.#pruning = pruning;
  }

  open(): void {
    this.changed();
    this.#every(retentionRound, () => this.#clearUp());
    this.#every(quarantineRound, () => this.#quarantine.round());
    const prune = () => this.#pruning.round();
    void prune().catch(this.#context.logError);
    this.#every(pruningRound, prune);
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    for (const round of this.#rounds) clearInterval(round);
    await this.#working;
    await Promise.all(this.#underWay);
  }

  /** call when a session's end may have moved */
  changed(): void {
    if (this.#closed) return;
    if (this.#working) {
      this.#again = true;
      return;
    }
    this.#working = this.#work()
      .catch((error) => {
        this.#context.logError(error);
        // the store may be unavailable for a while: this timer retries
        this.#wake(retryAfter);
      })
      .finally(() => {
        this.#working = undefined;
        if (this.#again) {
          this.#again = false;
          this.changed();
        }
      });
  }

  #every(ms: number, work: () => Promise<unknown>): void {
    const begin = () => {
      const round = work()
        .catch(this.#context.logError)
        .finally(() => this.#underWay.delete(round));
      this.#underWay.add(round);
    };
    this.#rounds.push(setInterval(begin, ms).unref());
  }

  async #work(): Promise<void> {
    const { store, now } = this.#context;
    const room = stopsAtOnce - this.#stopping.size;
    // the end of a stop calls this again
    if (room <= 0) return;
    const at = await (this.#context.settledNow ?? now)();
    // Every create and every stop comes here, and mostly nothing is due.
    const first = await store.nextExpiry();
    if (first === undefined || first > at) return this.#wakeAt(first, 1);
    // sessions that are being stopped may still be stored as running
    const due = await store.dueSessions(at, stopsAtOnce + this.#stopping.size);
    const fresh = due.filter(({ id }) => !this.#stopping.has(id)).slice(0, room);
    for (const session of fresh) {
      if (await this.#activity.isStillUsed(session)) continue;
      this.#stop(session);
    }
    this.#wakeAt(await store.nextExpiry(), due.length > 0 ? 50 : 1);
  }

  /** wakes when the next session is due, but not sooner than in `least` ms */
  #wakeAt(next: number | undefined, least: number): void {
    this.#wake(next === undefined ? longest : Math.min(longest, Math.max(least, next - this.#context.now())));
  }

  async #clearUp(): Promise<void> {
    // Before its snapshot expires: a paused session must not outlive it.
    await this.#pauses.expire();
    await Promise.all([this.#retention.expire(), this.#retention.deleteOutdated()]);
  }

  /** pauses it if its sandbox says so and the host has room for its snapshot, or else stops it */
  async #end(session: Session): Promise<unknown> {
    const sandbox = await this.#context.store.getSandbox(session.sandboxId);
    const about = { sandbox: session.sandboxName, session: session.id };
    const log = (error: unknown) => {
      // A session that ends for another reason needs no pause.
      if (!isSandkeepError(error, "conflict", "session")) this.#context.logError(error, about);
    };
    if (sandbox?.onTimeout === "pause" && (await this.#pauses.pause(session).catch(log))) return;
    return this.#endings.stop(session, "timeout", `Its time of ${durationInWords(session.timeout)} was over`);
  }

  #stop(session: Session): void {
    this.#stopping.add(session.id);
    const done = (wait: number) => {
      clearTimeout(late);
      if (this.#stopping.delete(session.id)) this.#wake(wait);
    };
    // a stop that hangs must not block others
    const late = setTimeout(done, longestStop, 0).unref();
    this.#end(session).then(
      () => done(0),
      (error: unknown) => {
        this.#context.logError(error, { sandbox: session.sandboxName, session: session.id });
        done(retryAfter);
      },
    );
  }

  #wake(after: number): void {
    clearTimeout(this.#timer);
    if (this.#closed) return;
    this.#timer = setTimeout(() => this.changed(), after);
    this.#timer.unref();
  }
}
