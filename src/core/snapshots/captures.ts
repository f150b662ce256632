/** Captures of sessions that go on running: snapshots of their file systems, frozen for a moment. */

import type { Context } from "../context.ts";
import type { Session, Snapshot } from "../model/sandbox.ts";
import type { Machine } from "../ports/runtime.ts";
import type { Retention } from "./retention.ts";

export interface CaptureSpec {
  session: Session;
  machine: Machine;
  name?: string | undefined;
  expiration?: number | undefined;
  /** the error if the session has begun to end meanwhile */
  refusal: (session: Session) => Error;
}

export class Captures {
  readonly #context: Context;
  readonly #retention: Retention;
  /** captures under way, by session; the last one includes all before it */
  readonly #flights = new Map<string, Promise<unknown>>();

  constructor(context: Context, retention: Retention) {
    this.#context = context;
    this.#retention = retention;
  }

  /** in sequence, so that the sandbox resumes from the newest */
  take(spec: CaptureSpec): Promise<Snapshot> {
    const { id } = spec.session;
    const before = this.#flights.get(id) ?? Promise.resolve();
    const flight = before.catch(() => undefined).then(() => this.#take(spec));
    const settled = flight
      .catch(() => undefined)
      .finally(() => {
        if (this.#flights.get(id) === settled) this.#flights.delete(id);
      });
    this.#flights.set(id, settled);
    return flight;
  }

  /** an end waits for this before its own capture: an older capture must not be recorded after it */
  async settled(sessionId: string): Promise<void> {
    await this.#flights.get(sessionId);
  }

  async #take({ session, machine, name, expiration, refusal }: CaptureSpec): Promise<Snapshot> {
    // Read after the flight is registered: an end that begins later waits for the flight.
    const current = await this.#context.store.getSession(session.id);
    if (current?.state !== "running") throw refusal(current ?? session);
    return this.#retention.record(session, await machine.snapshot(), { method: "manual", name, expiration });
  }
}
