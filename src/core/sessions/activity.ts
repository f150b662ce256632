/**
 * Records the use of sessions with an idle timeout. To store each use would cost each command a durable write, so of
 * many uses within a moment only the first and the last are stored. If a daemon dies before it stores a use, the next
 * one counts the recovery as a use, as no caller could use the session meanwhile.
 */

import type { Context } from "../context.ts";
import type { Session } from "../model/sandbox.ts";
import { expiryOf } from "./lifetime.ts";

/** ms within which uses count as one, for a session with a long idle timeout */
const longestMoment = 5000;

export class Activity {
  readonly #context: Context;
  /** sessions used a moment ago, and the time of their latest use since */
  readonly #moments = new Map<string, { again?: number }>();
  readonly #timers = new Set<NodeJS.Timeout>();

  constructor(context: Context) {
    this.#context = context;
  }

  /** records a use now; stored soon */
  used({ id, lifetime, timeout }: Session): void {
    if (lifetime !== "idle") return;
    const at = this.#context.now();
    const moment = this.#moments.get(id);
    if (moment) {
      moment.again = at;
      return;
    }
    this.#begin(id, Math.min(longestMoment, timeout / 5));
    void this.#write(id, at).catch(this.#context.logError);
  }

  /** records a use now; stored when this resolves with the updated session */
  async use(session: Session): Promise<Session> {
    if (session.lifetime !== "idle") return session;
    return (await this.#write(session.id, this.#context.now())) ?? session;
  }

  /** whether an expired session is in use and so goes on: a running command is a use */
  async isStillUsed(session: Session): Promise<boolean> {
    const { runtime, now, limits } = this.#context;
    if (session.lifetime !== "idle" || !runtime.machine(session.id)?.processes().length) return false;
    const at = now();
    if ((expiryOf(session, at, limits.maxTimeout) ?? 0) <= at) return false;
    return (await this.#write(session.id, at)) !== undefined;
  }

  /** drops uses that are not stored yet */
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
      if (moment.again !== undefined) void this.#write(id, moment.again).catch(this.#context.logError);
    }, length);
    timer.unref();
    this.#timers.add(timer);
  }

  /** reads the session again, as its timeout may have been extended */
  async #write(id: string, at: number): Promise<Session | undefined> {
    const { store, limits } = this.#context;
    const session = await store.getSession(id);
    if (session?.state !== "running" || (session.lastActivityAt ?? 0) > at) return session;
    const changes = { lastActivityAt: at, expiresAt: expiryOf(session, at, limits.maxTimeout) };
    return store.updateSession(id, ["running"], changes);
  }
}
