/**
 * How sandboxes are deleted. The record goes first: from then on no caller finds the sandbox, its name is free, and a
 * restart completes the rest. Ending its machine takes longer than that, so a caller need not wait for it.
 */

import type { FairSemaphore } from "../../base/concurrency/fair-semaphore.ts";
import type { Context } from "../context.ts";
import { isSandkeepError, SandkeepError } from "../model/errors.ts";
import type { Owner, Sandbox, Session } from "../model/sandbox.ts";
import type { Boots } from "../sessions/boot.ts";
import type { Endings } from "../sessions/end.ts";
import type { Retention } from "../snapshots/retention.ts";

export interface DeleteOptions {
  /** whether all or only unnamed snapshots are deleted, too */
  orphanSnapshots?: boolean | "unnamed" | undefined;
  /** whether to return when the deletion is on record, while the machine still ends */
  early?: boolean | undefined;
}

interface Parts {
  context: Context;
  boots: Boots;
  endings: Endings;
  retention: Retention;
  turns: FairSemaphore;
}

export class Deletions {
  readonly #parts: Parts;
  /** deletions that go on alone */
  readonly #leaving = new Set<Promise<unknown>>();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** the sandbox as it was; stops it if it runs */
  async delete(
    { teamId }: Pick<Owner, "teamId">,
    sandbox: Sandbox,
    { orphanSnapshots, early }: DeleteOptions,
  ): Promise<Sandbox> {
    const { promise: recorded, resolve } = Promise.withResolvers<void>();
    const all = this.#parts.turns.run(teamId, () => this.now(sandbox, orphanSnapshots ?? false, resolve));
    // A drive can be mounted elsewhere only when the machine has ended.
    if (!early || Object.keys(sandbox.mounts).length > 0) return all;
    this.#goOn(all);
    await Promise.race([recorded, all]);
    return sandbox;
  }

  /** without waiting for a turn; `recorded` is called when no caller finds the sandbox any longer */
  async now(sandbox: Sandbox, withSnapshots: boolean | "unnamed", recorded = () => {}): Promise<Sandbox> {
    const { context, retention } = this.#parts;
    const { store, now, events, logError } = context;
    const { id, name, projectId } = sandbox;
    // first, because the rest cannot be undone
    await store.deleteSandbox(id, now());
    events.publish(projectId, { type: "sandbox.deleted", sandbox: name, sandboxId: id });
    recorded();
    const deleted = (await store.getSandbox(id)) ?? sandbox;
    const session = await this.#discard(deleted);
    if (withSnapshots) {
      for (const snapshot of await store.snapshotsOf(id)) {
        if (withSnapshots === "unnamed" && snapshot.name !== undefined) continue;
        if (!(await store.isCurrentSnapshot(snapshot.id))) await retention.delete(snapshot);
      }
    }
    await retention.forget(session.id).catch(logError);
    return { ...((await store.getSandbox(id)) ?? deleted), state: session.state };
  }

  /** tries to start a machine; one that ends meanwhile may have the last place, so a refusal waits for it */
  async whenThereIsRoom<T>(start: () => Promise<T>): Promise<T> {
    try {
      return await start();
    } catch (error) {
      if (!isSandkeepError(error, "limit") || this.#leaving.size === 0) throw error;
      await Promise.all(this.#leaving);
      return start();
    }
  }

  #goOn(all: Promise<unknown>): void {
    const { logError } = this.#parts.context;
    const settled: Promise<unknown> = all.catch(logError).finally(() => this.#leaving.delete(settled));
    this.#leaving.add(settled);
  }

  /** stops its current session without a snapshot */
  async #discard({ currentSessionId, name }: Sandbox): Promise<Session> {
    const { context, boots, endings } = this.#parts;
    await boots.settled(currentSessionId);
    const session = await context.store.getSession(currentSessionId);
    if (!session) throw new SandkeepError("internal", `Sandbox "${name}" has lost its session`);
    return (await endings.discard(session, "Its sandbox was deleted")).session;
  }
}
