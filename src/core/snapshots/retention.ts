/** Which snapshots stay: how many a sandbox keeps, when they expire, and how they are deleted with their files. */

import { SharedRun } from "../../base/concurrency/single-flight.ts";
import type { Context } from "../context.ts";
import type { Sandbox, Session, Snapshot } from "../model/sandbox.ts";
import type { SnapshotInfo } from "../ports/runtime.ts";
import type { Descriptions } from "../recovery/descriptions.ts";
import type { Quarantine } from "../recovery/quarantine.ts";

const batch = 100;
/** how long the answer to a request with an idempotency key is kept, in ms */
const repeatWithin = 24 * 60 * 60_000;

/** What a caller can change of a snapshot. */
export interface SnapshotSettings {
  name?: string | undefined;
  /** ms after its last use; 0 for ever */
  expiration?: number | undefined;
}

interface RecordSpec {
  method: Snapshot["method"];
  /** default, for an automatic one, the name that its sandbox gives to those at the end of its sessions */
  name?: string | undefined;
  expiration?: number | undefined;
  /** whether its sandbox goes on resuming from another one: it has run since, or that one has the same files */
  isAside?: boolean;
}

export class Retention {
  readonly #context: Context;
  readonly #descriptions: Descriptions;
  readonly #quarantine: Pick<Quarantine, "has">;
  readonly #collecting = new SharedRun<void>();
  /** whether something was deleted since the last collection began */
  #isOutdated = false;
  /** size corrections under way */
  readonly #corrections = new Set<Promise<void>>();

  constructor(context: Context, descriptions: Descriptions, quarantine: Pick<Quarantine, "has">) {
    this.#context = context;
    this.#descriptions = descriptions;
    this.#quarantine = quarantine;
  }

  /**
   * stores a captured file system as a snapshot, makes it its sandbox's current one unless `isAside`, and evicts
   * older ones
   */
  async record(session: Session, kept: SnapshotInfo, how: RecordSpec): Promise<Snapshot> {
    const { store, ids, now, limits } = this.#context;
    const sandbox = await store.getSandbox(session.sandboxId);
    const at = now();
    const expiration =
      how.expiration ??
      sandbox?.keepLastSnapshots?.expiration ??
      sandbox?.snapshotExpiration ??
      limits.snapshotExpiration;
    const name = "name" in how || how.method === "manual" ? how.name : sandbox?.snapshotName;
    const snapshot: Snapshot = {
      id: ids.snapshot(),
      ...(name !== undefined && { name }),
      teamId: session.teamId,
      projectId: session.projectId,
      sandboxId: session.sandboxId,
      sandboxName: session.sandboxName,
      sessionId: session.id,
      runtimeId: kept.id,
      ...(session.sourceSnapshotId !== undefined && { parentId: session.sourceSnapshotId }),
      base: sandbox?.base ?? { image: kept.image, cwd: session.cwd, user: session.user },
      region: session.region,
      state: "created",
      method: how.method,
      sizeBytes: kept.size,
      createdAt: at,
      updatedAt: at,
      lastUsedAt: at,
      expiration,
      ...(expiration > 0 && { expiresAt: at + expiration }),
    };
    await store.insertSnapshot(snapshot);
    this.#publish("snapshot.created", snapshot);
    this.#correct(snapshot);
    if (sandbox) {
      await this.#descriptions.snapshot(sandbox, session, snapshot);
      if (how.isAside) return snapshot;
      await store.updateSandbox(sandbox.id, { currentSnapshotId: snapshot.id });
      await this.#evict(sandbox, snapshot.id);
    }
    return snapshot;
  }

  /** the snapshot that a session left */
  async latestOf(session: Session): Promise<Snapshot | undefined> {
    const snapshots = await this.#context.store.snapshotsOf(session.sandboxId);
    return snapshots.find((snapshot) => snapshot.sessionId === session.id);
  }

  /** restarts its lifetime */
  async use(snapshot: Snapshot): Promise<void> {
    const at = this.#context.now();
    const expiresAt = snapshot.expiration > 0 ? at + snapshot.expiration : undefined;
    await this.#context.store.updateSnapshot(snapshot.id, { lastUsedAt: at, expiresAt });
  }

  /** renames it, or changes how long after its last use it is deleted; 0 keeps it for ever */
  async change(snapshot: Snapshot, { name, expiration }: SnapshotSettings): Promise<Snapshot> {
    const { store, now } = this.#context;
    const at = now();
    const until = expiration !== undefined && expiration > 0 ? snapshot.lastUsedAt + expiration : undefined;
    const changed = await store.updateSnapshot(snapshot.id, {
      updatedAt: at,
      ...(name !== undefined && { name }),
      // One whose time would be over already gets it from now on.
      ...(expiration !== undefined && {
        expiration,
        expiresAt: until === undefined ? undefined : until > at ? until : at + expiration,
      }),
    });
    if (!changed) return snapshot;
    const [sandbox, session] = await Promise.all([
      store.getSandbox(changed.sandboxId),
      store.getSession(changed.sessionId),
    ]);
    if (sandbox && session) await this.#descriptions.snapshot(sandbox, session, changed);
    this.#publish("snapshot.changed", changed);
    return changed;
  }

  /** marks it as deleted; its files are deleted once nothing depends on them */
  async delete(snapshot: Snapshot): Promise<Snapshot> {
    if (snapshot.state === "deleted") return snapshot;
    const deleted = await this.#context.store.updateSnapshot(snapshot.id, { state: "deleted" });
    this.#publish("snapshot.deleted", snapshot);
    this.collect();
    return deleted ?? snapshot;
  }

  /** deletes what an ended machine left: its output and, if not captured, its files */
  forget(machineId: string): Promise<void> {
    return this.#descriptions.forgetMachine(machineId);
  }

  /** deletes expired snapshots, even one that a sandbox would resume from */
  async expire(): Promise<void> {
    const { store, now } = this.#context;
    for (;;) {
      const due = await store.dueSnapshots(now(), batch);
      for (const snapshot of due) await this.delete(snapshot);
      if (due.length < batch) return;
    }
  }

  /** deletes old output, and old sandboxes that cannot run again */
  async deleteOutdated(): Promise<void> {
    const { store, runtime, now, limits } = this.#context;
    await store.forgetIdempotent(now() - repeatWithin);
    if (limits.outputRetention > 0) {
      const old = runtime.ends().filter(({ endedAt }) => endedAt < now() - limits.outputRetention);
      const isKept = (machineId: string) => this.#quarantine.has(machineId);
      for (const { machineId } of old) if (!isKept(machineId)) await this.forget(machineId);
    }
    if (limits.sandboxRetention > 0) {
      for (const { id } of await store.staleSandboxes(now() - limits.sandboxRetention, batch)) {
        await store.deleteSandbox(id, now());
      }
    }
  }

  /** deletes runtime snapshots that the store has as deleted, in the background */
  collect(): void {
    this.#isOutdated = true;
    void this.#collecting.run(() => this.#collectAll());
  }

  async settled(): Promise<void> {
    await this.#collecting.current;
    await Promise.all(this.#corrections);
  }

  #publish(
    type: `snapshot.${"created" | "changed" | "deleted"}`,
    { id, projectId, sandboxName, sessionId }: Snapshot,
  ): void {
    this.#context.events.publish(projectId, { type, sandbox: sandboxName, snapshotId: id, sessionId });
  }

  /** updates the size once it is final */
  #correct({ id, runtimeId, sizeBytes }: Snapshot): void {
    const { store, runtime, logError } = this.#context;
    const correction = runtime.snapshots
      .settled(runtimeId)
      .then(async (kept) => {
        if (kept && kept.size !== sizeBytes) await store.updateSnapshot(id, { sizeBytes: kept.size });
      })
      .catch(logError)
      .finally(() => this.#corrections.delete(correction));
    this.#corrections.add(correction);
  }

  async #collectAll(): Promise<void> {
    while (this.#isOutdated) {
      this.#isOutdated = false;
      await this.#collect().catch(this.#context.logError);
    }
  }

  async #collect(): Promise<void> {
    const { store, runtime } = this.#context;
    const there = await runtime.snapshots.list();
    const wanted = new Set(await store.liveRuntimeSnapshots());
    for (const { id } of there.filter(({ id }) => !wanted.has(id))) {
      // a snapshot without any row was just captured, or is in quarantine
      if (!(await store.isDeletedSnapshot(id))) continue;
      await runtime.snapshots.delete(id).catch(() => undefined);
      this.#descriptions.forget("snapshot", id);
    }
    await runtime.snapshots.collect();
  }

  /** keeps the last few of a sandbox; deletes the others, or gives them the default lifetime. Named ones stay */
  async #evict(sandbox: Sandbox, newest: string): Promise<void> {
    const keep = sandbox.keepLastSnapshots;
    if (!keep) return;
    const { store, now, limits } = this.#context;
    const unnamed = (await store.snapshotsOf(sandbox.id)).filter(({ name }) => name === undefined);
    const older = unnamed.filter(({ id }) => id !== newest).slice(keep.count - 1);
    for (const snapshot of older) {
      if (keep.deleteEvicted) {
        await this.delete(snapshot);
      } else if (snapshot.expiration !== limits.snapshotExpiration) {
        const { snapshotExpiration: expiration } = limits;
        const expiresAt = expiration > 0 ? now() + expiration : undefined;
        await store.updateSnapshot(snapshot.id, { expiration, expiresAt });
      }
    }
  }
}
