/**
 * Keeps items that the database does not know for a configured time. The usual reason is a restored backup of the
 * database, which lacks everything made since. Until its time is over, such an item can be adopted (adoption.ts).
 *
 * Machines without a description are stopped at once. A machine is described before its create is acknowledged, so a
 * daemon died during the create, and no caller knows of it. The same holds for the machines of builds and their snapshots.
 */

import { isBuildMachine } from "../builds/machine-ids.ts";
import type { Context } from "../context.ts";
import type { Descriptions } from "./descriptions.ts";
import { entriesOf, entryOf, takeInventory, type Unknown } from "./unknown.ts";

/** age in ms after which a snapshot or machine end without a row will not get one */
const settledAfter = 60_000;

export class Quarantine {
  readonly #context: Context;
  readonly #descriptions: Descriptions;

  constructor(context: Context, descriptions: Descriptions) {
    this.#context = context;
    this.#descriptions = descriptions;
  }

  /** at the start: reports unknown items, and stops machines of creates that were never acknowledged */
  async open(options: { keepAll: boolean }): Promise<void> {
    const { runtime, files, limits, notice, logError } = this.#context;
    const { unknown } = await takeInventory(this.#context.store, runtime);
    // What a build's step left behind is of no use to anyone: the build has failed, and the next one does the step again.
    for (const { machineId, snapshot } of unknown.ended) {
      if (snapshot && isBuildMachine(machineId)) await runtime.snapshots.delete(snapshot.id).catch(logError);
    }
    for (const id of [...unknown.live, ...unknown.ended.map(({ machineId }) => machineId)]) {
      if (options.keepAll || this.#descriptions.has("machine", id)) continue;
      await runtime.machine(id)?.stop().catch(logError);
      await runtime.forget(id).catch(logError);
    }
    const kept = await this.#refresh({ isStart: true });
    if (entriesOf(kept).length > 0) notice(sentence(kept, limits.quarantine, files.recoverCommand));
  }

  /** periodically: deletes items that have been here for the configured time */
  async round(): Promise<void> {
    const { runtime, files, now, limits } = this.#context;
    const unknown = await this.#refresh();
    await this.#endOverdue(unknown.live);
    if (limits.quarantine === 0) return;
    const since = files.quarantined();
    const isOver = (entry: string) => (since[entry] ?? now()) <= now() - limits.quarantine;
    for (const id of unknown.live.filter((id) => isOver(entryOf("machine", id)))) {
      await runtime.machine(id)?.stop();
    }
    for (const id of [...unknown.live, ...unknown.ended.map(({ machineId }) => machineId)]) {
      if (isOver(entryOf("machine", id))) await this.#descriptions.forgetMachine(id);
    }
    for (const { id } of unknown.snapshots.filter(({ id }) => isOver(entryOf("snapshot", id)))) {
      await runtime.snapshots.delete(id);
      this.#descriptions.forget("snapshot", id);
    }
    for (const id of unknown.drives.filter((id) => isOver(entryOf("drive", id)))) {
      await runtime.drives.delete(id);
      this.#descriptions.forget("drive", id);
    }
  }

  /** whether an ended machine waits here for adoption */
  has(machineId: string): boolean {
    return this.#context.files.quarantined()[entryOf("machine", machineId)] !== undefined;
  }

  /** stores since when items are unknown; drops entries of items that are known or gone */
  async #refresh({ isStart = false } = {}): Promise<Unknown> {
    const { store, runtime, files, now } = this.#context;
    const { unknown: found } = await takeInventory(store, runtime);
    const before = files.quarantined();
    // a new snapshot may not be in the store yet
    const snapshots = found.snapshots.filter(({ createdAt }) => createdAt < now() - settledAfter);
    const live = found.live.filter((id) => this.#descriptions.has("machine", id) || before[entryOf("machine", id)]);
    const ended = found.ended.filter(({ endedAt }) => endedAt < now() - settledAfter);
    // Later than at the start, one without a description may be about to get its row. A daemon that died while it made
    // or deleted a drive leaves one, too.
    const drives = found.drives.filter(
      (id) => isStart || this.#descriptions.has("drive", id) || before[entryOf("drive", id)] !== undefined,
    );
    const unknown = { live, ended, snapshots, drives };
    const since = Object.fromEntries(entriesOf(unknown).map((entry) => [entry, before[entry] ?? now()]));
    if (JSON.stringify(since) !== JSON.stringify(before)) files.setQuarantined(since);
    return unknown;
  }

  /** stops unknown machines when their session's time is over, and keeps their files */
  async #endOverdue(live: string[]): Promise<void> {
    const { runtime, files, now, logError } = this.#context;
    for (const id of live) {
      const expiresAt = files.description("machine", id)?.session?.expiresAt;
      if (expiresAt !== undefined && expiresAt <= now()) {
        await runtime.machine(id)?.stop({ snapshot: true }).catch(logError);
      }
    }
  }
}

function sentence({ live, ended, snapshots, drives }: Unknown, time: number, recover: string): string {
  const what = [
    count(live.length + ended.length, "machine"),
    count(snapshots.length, "snapshot"),
    count(drives.length, "drive"),
  ].filter((phrase) => phrase !== "");
  const until = time === 0 ? "for ever" : `for ${Math.round(time / 3_600_000)} hours`;
  return `The database does not know ${what.join(", ")} of the data directory. They are kept ${until}; stop the daemon and run "${recover}" to list them, "${recover} --adopt" to have them back`;
}

function count(number: number, noun: string): string {
  return number === 0 ? "" : `${number} ${noun}${number === 1 ? "" : "s"}`;
}
