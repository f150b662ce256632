/** A session's current resource use. Two samples of the processor time give its processor load. */

import { keepLast } from "../../base/bounded-map.ts";
import { after } from "../../base/concurrency/waits.ts";
import type { Machine, Usage } from "../ports/runtime.ts";

/** ms between two samples, and the longest age of the earlier one */
const interval = 100;
const oldest = 60_000;
const mostMachines = 1000;

export interface Load extends Usage {
  /** average number of busy processors since the sample before */
  processors: number;
}

interface Look {
  at: number;
  cpuTime: number;
}

export class Loads {
  readonly #now: () => number;
  /** the last sample of each machine */
  readonly #looks = new Map<string, Look>();

  constructor(now: () => number) {
    this.#now = now;
  }

  async of(machine: Machine): Promise<Load> {
    const before = await this.#before(machine);
    const usage = await machine.usage();
    const look = { at: this.#now(), cpuTime: usage.cpuTime };
    this.#looks.delete(machine.id);
    this.#looks.set(machine.id, look);
    keepLast(this.#looks, mostMachines);
    const worked = Math.max(0, look.cpuTime - before.cpuTime);
    return { ...usage, processors: worked / Math.max(1, look.at - before.at) };
  }

  async #before(machine: Machine): Promise<Look> {
    const known = this.#looks.get(machine.id);
    const age = known ? this.#now() - known.at : 0;
    if (known && age >= interval && age <= oldest) return known;
    const { cpuTime } = await machine.usage();
    const look = { at: this.#now(), cpuTime };
    await after(interval);
    return look;
  }
}
