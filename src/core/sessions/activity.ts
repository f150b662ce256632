/**
 * The use of sessions whose time begins anew with it. To write each use down would cost each command a durable write, so
 * of many within a moment only the first and the last are written. What a daemon that dies has not written is made up
 * for by the next one: to be recovered is a use, as nobody could use it meanwhile.
 */

import type { Context } from "../context.ts";
import type { Session } from "../model/sandbox.ts";
import { expiryOf } from "./lifetime.ts";

/** ms within which uses count as one, for a session that is allowed to be idle for long */
const longestMoment = 5000;

export class Activity {
  readonly #context: Context;
  /** sessions that were used a moment ago, and when they were used again since */
  readonly #moments = new Map<string, { again?: number }>();
  readonly #timers = new Set<NodeJS.Timeout>();

  constructor(context: Context) {
    this.#context = context;
  }

  /** somebody uses it now; written when there is time */
  used({ id, lifetime, timeout }: Session): void {
    if (lifetime !== "idle") return;
    const at = this.#context.now();
    const moment = this.#moments.get(id);
    if (moment) {
      moment.again = at;
      return;
    }
    this.#begin(id, Math.min(longestMoment, timeout / 5));
    void this.#write(id, at).catch(this.#context.trouble);
  }

  /** somebody uses it now; written when this resolves, which is with the session as it is then */
  async use(session: Session): Promise<Session> {
    if (session.lifetime !== "idle") return session;
    return (await this.#write(session.id, this.#context.now())) ?? session;
  }

  /** whether a session whose time is over is in use right now, and so goes on: a command that runs is a use */
  async isStillUsed(session: Session): Promise<boolean> {
    const { runtime, now, limits } = this.#context;
    if (session.lifetime !== "idle" || !runtime.machine(session.id)?.processes().length) return false;
    const at = now();
    if ((expiryOf(session, at, limits.maxTimeout) ?? 0) <= at) return false;
    return (await this.#write(session.id, at)) !== undefined;
  }

  /** forgets what is not written */
  close(): void {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
    this.#moments.clear();
  }

  #begin(id: string, length: number): void {
    const moment: { again?: number } = {};
    this.#moments.set(id, moment);
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      this.#moments.delete(id);
      if (moment.again !== undefined) void this.#write(id, moment.again).catch(this.#context.trouble);
    }, length);
    timer.unref();
    this.#timers.add(timer);
  }

  /** by what the store says now: its timeout may have been extended */
  async #write(id: string, at: number): Promise<Session | undefined> {
    const { store, limits } = this.#context;
    const session = await store.getSession(id);
    if (session?.state !== "running" || (session.lastActivityAt ?? 0) > at) return session;
    const changes = { lastActivityAt: at, expiresAt: expiryOf(session, at, limits.maxTimeout) };
    return store.updateSession(id, ["running"], changes);
  }
}
