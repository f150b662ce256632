/**
 * Disk limits where the store's file system has none. Measures the files of each machine at intervals. While they
 * exceed the limit, the machine's programs cannot add to them; they can still read and delete, and write again after
 * deleting.
 */

import { join } from "node:path";
import type { Launcher } from "../guest-wire/launcher.ts";
import { processesFile } from "../host/cgroup.ts";
import type { LinuxMachine } from "../machines/machine.ts";
import type { Volumes } from "./volumes.ts";

export interface DiskWatchOptions {
  launcher: Launcher;
  volumes: Volumes;
  machines: () => Iterable<LinuxMachine>;
  /** called with errors of background work */
  logError: (error: unknown) => void;
}

/** pause after each round, in ms; a round takes longer the more files there are */
const pause = 500;

export class DiskWatch {
  readonly #options: DiskWatchOptions;
  readonly #stopped = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: DiskWatchOptions) {
    this.#options = options;
    if (!options.volumes.real) this.#schedule();
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  #schedule(): void {
    if (this.#closed) return;
    this.#timer = setTimeout(() => {
      void this.#round()
        .catch(this.#options.logError)
        .finally(() => this.#schedule());
    }, pause);
    this.#timer.unref();
  }

  async #round(): Promise<void> {
    for (const machine of this.#options.machines()) {
      const { plan } = machine;
      const used = await this.#options.volumes.measure(join(plan.volume, "fs")).catch(() => undefined);
      if (this.#closed || used === undefined || machine.record.ended) continue;
      const over = used > machine.spec.limits.disk;
      // repeated in every round: programs started since the last one inherit no limit from the agent
      if (over || this.#stopped.has(plan.name)) await this.#allow(machine, !over);
    }
  }

  async #allow({ plan }: LinuxMachine, allowed: boolean): Promise<void> {
    if (allowed) this.#stopped.delete(plan.name);
    else this.#stopped.add(plan.name);
    await this.#options.launcher.setWrites(plan.name, processesFile(plan.cgroup), allowed);
  }
}
