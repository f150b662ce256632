/**
 * Pauses sessions and continues them. A paused session keeps its machine, frozen: its memory, and every program where it
 * was. Its files are captured too, for forks and for a host that goes down. Its time does not count meanwhile.
 *
 * A pause is stored once the machine is frozen and captured, a resume once the machine goes on. If the daemon dies in
 * between, the next one makes the machine agree with the store.
 */

import { OrderedWork } from "../../base/concurrency/ordered-work.ts";
import { Retries } from "../../base/concurrency/retries.ts";
import type { Context } from "../context.ts";
import { beginTrust, trusted } from "../images/trust.ts";
import { isSandkeepError } from "../model/errors.ts";
import type { Sandbox, Session } from "../model/sandbox.ts";
import { networkOf } from "../network/networks.ts";
import type { Machine } from "../ports/runtime.ts";
import type { SessionChanges } from "../ports/store.ts";
import type { Captures } from "../snapshots/captures.ts";
import { type Endings, notRunning } from "./end.ts";
import { expiryOf } from "./lifetime.ts";
import type { SessionEvent } from "./states.ts";
import type { Transitions } from "./transitions.ts";

export interface PausesOptions {
  context: Context;
  transitions: Transitions;
  endings: Endings;
  captures: Captures;
  /** follows the commands of a session again */
  adoptCommands: (session: Session) => Promise<void>;
  /** call when the time at which a session expires has changed */
  expiryChanged: () => void;
}

export class Pauses {
  readonly #options: PausesOptions;
  readonly #context: Context;
  /** pauses and resumes, by session */
  readonly #work = new OrderedWork();
  /** sessions that an earlier daemon has paused: nothing follows their commands yet */
  readonly #found = new Set<string>();
  /** paused sessions whose programs may not trust what their network policy needs */
  readonly #untrusting = new Set<string>();
  readonly #retries: Retries;

  constructor(options: PausesOptions) {
    this.#options = options;
    this.#context = options.context;
    this.#retries = new Retries(this.#context.logError);
  }

  close(): void {
    this.#retries.close();
  }

  /** the session is paused when this resolves; where the host cannot freeze it, it has stopped and kept its files */
  pause(session: Session): Promise<Session> {
    return this.#work.run(session.id, () => this.#pause(session));
  }

  /**
   * the session, which runs; undefined if it was not paused any more, for example because its machine is gone. `timeout`
   * counts from now; by default the session gets the time that it had left
   */
  resume(session: Session, timeout?: number): Promise<Session | undefined> {
    return this.#work.run(session.id, () => this.#resume(session.id, timeout));
  }

  /** resolves when the pauses and resumes of a session that are under way are over */
  settled(sessionId: string): Promise<void> {
    return this.#work.settled(sessionId);
  }

  /** takes over a paused session of an earlier daemon, which may have died before or after the machine was frozen */
  async found(session: Session, machine: Machine): Promise<void> {
    this.#found.add(session.id);
    // The host's certificates may have changed since the machine booted.
    this.#untrusting.add(session.id);
    if (machine.isPaused) return;
    await this.#options.captures.take({ session, machine, pauses: true, refusal: notRunning });
  }

  /** call when the network policy of a paused session changes */
  policyChanged(sessionId: string): void {
    this.#untrusting.add(sessionId);
  }

  /** ends sessions that have been paused for as long as their files are kept */
  async expire(): Promise<void> {
    const { store, now } = this.#context;
    for (const session of await store.openSessions()) {
      if (session.state !== "paused") continue;
      const { currentSnapshotId = "" } = (await store.getSandbox(session.sandboxId)) ?? {};
      const snapshot = await store.getSnapshot(currentSnapshotId);
      if (snapshot?.sessionId !== session.id || (snapshot.expiresAt ?? Number.POSITIVE_INFINITY) > now()) continue;
      await this.#options.endings.discard(session, "It was paused for as long as its files are kept");
    }
  }

  async #pause(session: Session): Promise<Session> {
    const { store, runtime, notice, logError } = this.#context;
    const { captures, endings } = this.#options;
    const machine = runtime.machine(session.id);
    if (!machine) throw notRunning({ ...session, state: "stopping" });
    // A frozen machine cannot be given its certificates.
    await trusted(machine);
    try {
      await captures.take({ session, machine, pauses: true, refusal: notRunning });
    } catch (error) {
      if (!isSandkeepError(error, "unsupported")) throw error;
      notice("A pause keeps files only, and programs end: this host's kernel cannot freeze sandboxes");
      return (await endings.capture(session, undefined)).session;
    }
    const sandbox = await store.getSandbox(session.sandboxId);
    // Read again: a caller may have extended it meanwhile.
    const current = (await store.getSession(session.id)) ?? session;
    const paused = await this.#apply(session, "pause", pauseOf(current, sandbox, this.#context.now())).catch(
      async (error) => {
        await machine.resume().catch(logError);
        throw this.#unsure(session, error);
      },
    );
    if (paused) return paused;
    // It has begun to end.
    await machine.resume().catch(() => undefined);
    throw notRunning((await store.getSession(session.id)) ?? session);
  }

  async #resume(id: string, timeout: number | undefined): Promise<Session | undefined> {
    const { store, runtime, limits } = this.#context;
    const { endings } = this.#options;
    const session = await store.getSession(id);
    if (session?.state !== "paused") return undefined;
    const machine = runtime.machine(id);
    try {
      await machine?.resume();
    } catch (error) {
      if (!isSandkeepError(error, "gone")) throw error;
      if (machine) await endings.confirm(machine);
      return undefined;
    }
    const end = machine ? undefined : runtime.end(id);
    if (end) await endings.machineEnded(end);
    if (!machine) return undefined;
    const at = await (this.#context.settledNow ?? this.#context.now)();
    const changes = resumeOf(session, at, timeout, limits.maxTimeout);
    const running = await this.#apply(session, "resume", changes).catch((error) => {
      throw this.#unsure(session, error);
    });
    if (!running) return undefined;
    await this.#resumed(running, machine);
    return running;
  }

  async #resumed(running: Session, machine: Machine): Promise<void> {
    const { adoptCommands, expiryChanged } = this.#options;
    if (this.#found.delete(running.id)) await adoptCommands(running);
    if (this.#untrusting.delete(running.id)) beginTrust(machine, networkOf(this.#context, running), this.#context);
    expiryChanged();
  }

  /** the store may have done what it gave no answer to: once it is back, the machine is made to agree with it */
  #unsure({ id }: Session, error: unknown): unknown {
    this.#retries.again(id, () => this.#work.run(id, () => this.#agree(id)));
    return error;
  }

  async #agree(id: string): Promise<void> {
    const session = await this.#context.store.getSession(id);
    const machine = this.#context.runtime.machine(id);
    if (!session || !machine) return;
    if (session.state === "running") {
      await machine.resume();
      await this.#resumed(session, machine);
    }
    if (session.state === "paused" && !machine.isPaused)
      await this.#options.captures.take({ session, machine, pauses: true, refusal: notRunning });
  }

  /** repeats what the store may have done already: only one pause or resume of a session runs at a time */
  async #apply(session: Session, event: SessionEvent, changes: SessionChanges): Promise<Session | undefined> {
    const apply = () => this.#options.transitions.apply(session, event, changes);
    return apply().catch((error) => {
      if (isSandkeepError(error, "unavailable")) return apply();
      throw error;
    });
  }
}

/** what a pause changes: a resume gives the time that is left now, or a new one if none is left */
export function pauseOf(session: Session, sandbox: Pick<Sandbox, "timeout"> | undefined, at: number): SessionChanges {
  const { lifetime, expiresAt = at } = session;
  const left = expiresAt - at;
  const timeout = lifetime === undefined ? (left > 0 ? left : (sandbox?.timeout ?? session.timeout)) : session.timeout;
  return { pausedAt: at, updatedAt: at, snapshottedAt: at, expiresAt: undefined, timeout };
}

/** what a resume changes */
export function resumeOf(session: Session, at: number, given: number | undefined, longest: number): SessionChanges {
  const { lifetime, pausedAt = at, pausedMs = 0, timeout: left } = session;
  const timeout = lifetime === undefined ? (given ?? left) : left;
  return {
    resumedAt: at,
    updatedAt: at,
    pausedAt: undefined,
    pausedMs: pausedMs + Math.max(0, at - pausedAt),
    // Its files change from now on.
    snapshottedAt: undefined,
    timeout,
    expiresAt: expiryOf({ ...session, timeout, resumedAt: at }, at, longest),
    ...(lifetime === "idle" && { lastActivityAt: at }),
  };
}
