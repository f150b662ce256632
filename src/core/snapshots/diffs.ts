/** The files that differ between two snapshots, or between a snapshot and a sandbox as it is now. */

import { FairSemaphore, QueueFull } from "../../base/concurrency/fair-semaphore.ts";
import type { Context } from "../context.ts";
import { notFound, SandkeepError } from "../model/errors.ts";
import type { Owner, Snapshot } from "../model/sandbox.ts";
import type { DiffOptions, TreeDiff, TreePlace } from "../ports/tree-diff.ts";

/** What a snapshot is compared with; by default its own sandbox as it is now. */
export type DiffTarget = { snapshot: string } | { sandbox: string } | undefined;

/** comparisons at a time: each reads as many files as its page may */
const atOnce = { ofAll: 2, ofTeam: 1, waiting: 8 };

export class Diffs {
  readonly #context: Pick<Context, "store" | "runtime">;
  readonly #turns = new FairSemaphore(atOnce);

  constructor(context: Pick<Context, "store" | "runtime">) {
    this.#context = context;
  }

  async diff(owner: Owner, id: string, target: DiffTarget, options: DiffOptions): Promise<TreeDiff> {
    const from = await this.#snapshot(owner, id);
    const to = await this.#target(owner, target ?? { sandbox: from.sandboxName });
    const compare = () => this.#context.runtime.snapshots.compare(placeOf(from), to, options);
    return this.#turns.run(owner.teamId, compare, options.signal).catch((error) => {
      if (!(error instanceof QueueFull)) throw error;
      const why = "too many comparisons are under way; try again when one is over";
      throw new SandkeepError("limit", `Cannot compare the files: ${why}`, { retryAfter: 1 });
    });
  }

  async #target(owner: Owner, target: NonNullable<DiffTarget>): Promise<TreePlace> {
    if ("snapshot" in target) return placeOf(await this.#snapshot(owner, target.snapshot));
    const { store, runtime } = this.#context;
    const sandbox = await store.findSandbox(owner.projectId, target.sandbox);
    if (!sandbox) throw notFound("sandbox", target.sandbox);
    if (runtime.machine(sandbox.currentSessionId)) return { machine: sandbox.currentSessionId };
    if (sandbox.currentSnapshotId !== undefined) return placeOf(await this.#snapshot(owner, sandbox.currentSnapshotId));
    const why = "it does not run, and has no snapshot";
    throw new SandkeepError("conflict", `Cannot compare with sandbox "${sandbox.name}": ${why}`);
  }

  async #snapshot(owner: Owner, id: string): Promise<Snapshot> {
    const snapshot = await this.#context.store.getSnapshot(id);
    if (snapshot?.teamId === owner.teamId && snapshot.projectId === owner.projectId) return snapshot;
    throw new SandkeepError("not-found", `Snapshot '${id}' not found.`);
  }
}

function placeOf({ id, runtimeId, state }: Snapshot): TreePlace {
  if (state === "created") return { snapshot: runtimeId };
  throw new SandkeepError("gone", `Cannot compare snapshot "${id}": its files are gone`, {
    about: { kind: "snapshot" },
  });
}
