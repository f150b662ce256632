/**
 * Keeps machines from adding to their files while the host's disk is short of room (disk-room.ts). The kernel enforces a
 * limit on each volume; while room is short that limit is what the volume holds already. Programs then read "Disk quota
 * exceeded" where a write would need room; reading and deleting go on.
 */

import { existsSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { makeFolderSync } from "../../../base/files/folders.ts";
import { isSandkeepError } from "../../../core/model/errors.ts";
import type { Launcher } from "../guest-wire/launcher.ts";
import { processesFile } from "../host/cgroup.ts";
import type { LinuxMachine } from "../machines/machine.ts";
import type { DiskRoom } from "./disk-room.ts";
import type { Volumes } from "./volumes.ts";

export interface GrowthStopOptions {
  room: DiskRoom;
  launcher: Launcher;
  volumes: Volumes;
  machines: () => Iterable<LinuxMachine>;
  store: string;
  /** flushes the store */
  sync: () => Promise<void>;
  /** whether the store's file system holds only our files: then records and the output of commands get a limit too */
  isOwnStore: boolean;
  /** a file that exists while limits are lowered, so that a daemon started meanwhile raises them again */
  note: string;
  /** called when there is room again */
  resumed: () => void;
  /** called with errors of background work */
  logError: (error: unknown) => void;
}

export class GrowthStop {
  readonly #options: GrowthStopOptions;
  /** machines whose limits are lowered, by name */
  readonly #stopped = new Set<string>();
  #isStopped: boolean;
  /** whether the store as a whole has a limit */
  #isBounded: boolean;
  #round: Promise<void> = Promise.resolve();

  constructor(options: GrowthStopOptions) {
    this.#options = options;
    this.#isStopped = existsSync(options.note);
    this.#isBounded = this.#isStopped;
    options.room.attach(options.store, () => this.apply());
  }

  close(): void {
    this.#options.room.detach();
  }

  /** adapts the limits to the room on the disk; one round after the other */
  apply(): Promise<void> {
    this.#round = this.#round.then(() => this.#apply()).catch(this.#options.logError);
    return this.#round;
  }

  async #apply(): Promise<void> {
    const { room, note } = this.#options;
    if (room.isShort) {
      if (!this.#isStopped) this.#takeNote();
      // Programs that write fast use the reserve up, so their limits come before everything that waits for the disk.
      await this.#stop();
      if (!this.#isBounded) await this.#boundStore();
    } else if (this.#isStopped) {
      await this.#end();
      rmSync(note, { force: true });
      this.#isStopped = false;
      this.#isBounded = false;
      this.#options.resumed();
    }
  }

  #takeNote(): void {
    const { note } = this.#options;
    makeFolderSync(dirname(note), 0o700);
    writeFileSync(note, "");
    this.#isStopped = true;
  }

  async #boundStore(): Promise<void> {
    const { store, isOwnStore, volumes, room, sync } = this.#options;
    this.#isBounded = true;
    // Writes accepted so far get to the disk while there is room for them; by itself the kernel takes half a minute.
    sync().catch(() => undefined);
    if (!isOwnStore) return;
    const used = await volumes.usage(store);
    // Records of machines that stop need room, and the output of commands needs a bound meanwhile.
    if (used !== undefined) await volumes.limit(store, used + Math.floor(room.reserve / 4));
  }

  async #stop(): Promise<void> {
    const { machines, volumes } = this.#options;
    const fresh = [...machines()].filter(({ plan, record }) => !record.ended && !this.#stopped.has(plan.name));
    await Promise.all(
      fresh.map(async (machine) => {
        const used = await volumes.usage(machine.plan.volume);
        if (used !== undefined) await this.#limit(machine, Math.max(used, 1));
        this.#stopped.add(machine.plan.name);
      }),
    );
    await this.#setWrites(false);
  }

  async #end(): Promise<void> {
    const { machines, volumes, store, isOwnStore } = this.#options;
    if (isOwnStore) await volumes.limit(store, 0);
    await Promise.all([...machines()].map((machine) => this.#limit(machine, machine.spec.limits.disk)));
    await this.#setWrites(true);
    this.#stopped.clear();
  }

  /** a machine that has ended meanwhile has moved its volume, and nothing writes to it */
  async #limit(machine: LinuxMachine, bytes: number): Promise<void> {
    try {
      await this.#options.volumes.limit(machine.plan.volume, bytes);
    } catch (error) {
      if (!machine.record.ended && !isSandkeepError(error, "not-found")) throw error;
    }
  }

  /**
   * For files that no volume's limit covers: drives, whose own limits are not known here, and stores without volumes.
   * Repeated in every round, since programs that were started since the last one have no limit.
   */
  async #setWrites(allowed: boolean): Promise<void> {
    const { launcher, volumes, machines } = this.#options;
    for (const machine of machines()) {
      const { plan, record } = machine;
      if (record.ended || (volumes.real && !hasDrive(machine))) continue;
      await launcher.setWrites(plan.name, processesFile(plan.cgroup), allowed).catch((error) => {
        if (!record.ended) throw error;
      });
    }
  }
}

function hasDrive({ spec }: LinuxMachine): boolean {
  return spec.mounts.some(({ mode }) => mode === "read-write");
}
