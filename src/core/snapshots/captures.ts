/** Captures of sessions that do not end: snapshots of their file systems, frozen for a moment or for a pause. */

import { OrderedWork } from "../../base/concurrency/ordered-work.ts";
import type { Context } from "../context.ts";
import type { Session, Snapshot } from "../model/sandbox.ts";
import type { Machine } from "../ports/runtime.ts";
import type { Retention } from "./retention.ts";

export interface CaptureSpec {
  session: Session;
  machine: Machine;
  name?: string | undefined;
  /** whether the caller asked for a snapshot; default "manual" */
  method?: Snapshot["method"];
  expiration?: number | undefined;
  /** whether the machine stays frozen afterwards */
  pauses?: boolean;
  /** the error if the session has begun to end meanwhile */
  refusal: (session: Session) => Error;
}

export class Captures {
  readonly #context: Context;
  readonly #retention: Retention;
  /** captures, by session */
  readonly #captures = new OrderedWork();

  constructor(context: Context, retention: Retention) {
    this.#context = context;
    this.#retention = retention;
  }

  /** in sequence, so that the sandbox resumes from the newest */
  take(spec: CaptureSpec): Promise<Snapshot> {
    return this.#captures.run(spec.session.id, () => this.#take(spec));
  }

  /** a snapshot that the caller has not named is only a means of the fork */
  forFork(spec: Omit<CaptureSpec, "method">): Promise<Snapshot> {
    return this.take({ ...spec, method: spec.name === undefined ? "automatic" : "manual" });
  }

  /** an end waits for this before its own capture: an older capture must not be recorded after it */
  settled(sessionId: string): Promise<void> {
    return this.#captures.settled(sessionId);
  }

  async #take({
    session,
    machine,
    name,
    method = "manual",
    expiration,
    pauses,
    refusal,
  }: CaptureSpec): Promise<Snapshot> {
    // Read after the capture is registered: an end that begins later waits for it.
    const current = await this.#context.store.getSession(session.id);
    if (current?.state !== "running" && current?.state !== "paused") throw refusal(current ?? session);
    const isAside = !pauses && current.state === "paused" && (await this.#hasSnapshot(session));
    const kept = await (pauses ? machine.pause() : machine.snapshot());
    try {
      return await this.#retention.record(session, kept, { method, name, expiration, isAside });
    } catch (error) {
      if (pauses) await machine.resume().catch(this.#context.logError);
      throw error;
    }
  }

  /** whether its sandbox resumes from a snapshot of this session: a paused one then has that of its pause */
  async #hasSnapshot({ id, sandboxId }: Session): Promise<boolean> {
    const { store } = this.#context;
    const { currentSnapshotId = "" } = (await store.getSandbox(sandboxId)) ?? {};
    const snapshot = await store.getSnapshot(currentSnapshotId);
    return snapshot?.sessionId === id && snapshot.state === "created";
  }
}
