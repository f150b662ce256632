/**
 * Ends sessions when their time is over. The store is the timer: it is asked when the next one is due, so a restart
 * forgets nothing, and a session that was extended meanwhile is simply not due.
 */

import type { Context } from "../context.ts";
import type { Session } from "../model/sandbox.ts";
import type { Quarantine } from "../recovery/quarantine.ts";
import type { Retention } from "../snapshots/retention.ts";
import type { Activity } from "./activity.ts";
import type { Endings } from "./end.ts";
import type { Pruning } from "./pruning.ts";

/** more at once would end no sooner, and leave no time for those who ask */
export const stopsAtOnce = 8;
/** the clock may have been set, or another daemon may have changed something: look at least this often, in ms */
const longest = 30_000;
/** after a look at the store that failed, in ms */
const retryAfter = 1000;
/** how long a stop counts as one of those, in ms */
const longestStop = 30_000;
const retentionRound = 60_000;
const quarantineRound = 10 * 60_000;
const pruningRound = 10 * 60_000;

export interface ExpiryOptions {
  context: Context;
  endings: Endings;
  retention: Retention;
  activity: Activity;
  quarantine: Quarantine;
  pruning: Pruning;
}

export class Expiry {
  readonly #context: Context;
  readonly #endings: Endings;
  readonly #retention: Retention;
  readonly #activity: Activity;
  readonly #quarantine: Quarantine;
  readonly #pruning: Pruning;
  #timer: NodeJS.Timeout | undefined;
  readonly #rounds: NodeJS.Timeout[] = [];
  /** sessions that are being stopped because their time is over */
  readonly #stopping = new Set<string>();
  #working: Promise<void> | undefined;
  #again = false;
  #closed = false;

  constructor({ context, endings, retention, activity, quarantine, pruning }: ExpiryOptions) {
    this.#context = context;
    this.#endings = endings;
    this.#retention = retention;
    this.#activity = activity;
    this.#quarantine = quarantine;
    this.#pruning = pruning;
  }

  open(): void {
    this.changed();
    this.#every(retentionRound, () => Promise.all([this.#retention.expire(), this.#retention.deleteOutdated()]));
    this.#every(quarantineRound, () => this.#quarantine.round());
    const prune = () => this.#pruning.round();
    void prune().catch(this.#context.trouble);
    this.#every(pruningRound, prune);
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    for (const round of this.#rounds) clearInterval(round);
    await this.#working;
  }

  /** somebody's end may be nearer or farther now */
  changed(): void {
    if (this.#closed) return;
    if (this.#working) {
      this.#again = true;
      return;
    }
    this.#working = this.#work()
      .catch((error) => {
        this.#context.trouble(error);
        // the store may be away for a while: nobody else would ask it again
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
    const round = setInterval(() => void work().catch(this.#context.trouble), ms);
    this.#rounds.push(round.unref());
  }

  async #work(): Promise<void> {
    const { store, now } = this.#context;
    const room = stopsAtOnce - this.#stopping.size;
    // the end of one asks again
    if (room <= 0) return;
    const at = await (this.#context.settledNow ?? now)();
    // those that are being stopped may still be on record as running
    const due = await store.dueSessions(at, stopsAtOnce + this.#stopping.size);
    const fresh = due.filter(({ id }) => !this.#stopping.has(id)).slice(0, room);
    for (const session of fresh) {
      if (await this.#activity.isStillUsed(session)) continue;
      this.#stop(session);
    }
    const next = await store.nextExpiry();
    const wait = next === undefined ? longest : Math.min(longest, Math.max(due.length > 0 ? 50 : 1, next - now()));
    this.#wake(wait);
  }

  #stop(session: Session): void {
    this.#stopping.add(session.id);
    const reason = `Its time of ${session.timeout} ms was over`;
    const done = (wait: number) => {
      clearTimeout(late);
      if (this.#stopping.delete(session.id)) this.#wake(wait);
    };
    // one that does not end takes the place of no other
    const late = setTimeout(done, longestStop, 0).unref();
    this.#endings.stop(session, "timeout", reason).then(
      () => done(0),
      (error: unknown) => {
        this.#context.trouble(error, { sandbox: session.sandboxName, session: session.id });
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
