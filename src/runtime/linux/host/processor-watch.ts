/** How busy the processors of the host have been in the last seconds, with the programs of everybody. */

import { loadavg } from "node:os";
import type { Vitals } from "../../../core/ports/vitals.ts";
import { kernelText } from "./kernel-file.ts";
import { type PeriodicTask, runEvery } from "./periodic-task.ts";

/** how often to measure, in ms; a measurement reads one file */
const pause = 1000;
/** measurements to keep: one that is a few seconds old is compared with the present */
const most = 5;

export class ProcessorWatch {
  readonly #task: PeriodicTask;
  /** oldest first */
  #kept = [present()];

  constructor(logError: (error: unknown) => void) {
    this.#task = runEvery(pause, () => this.#measure(), logError);
  }

  close(): void {
    this.#task.close();
  }

  reading(): Vitals["processors"] {
    const now = present();
    const [before = now] = this.#kept;
    return { count: now.count, busy: busyBetween(before, now), load: loadavg()[0] ?? 0 };
  }

  #measure(): void {
    this.#kept = [...this.#kept, present()].slice(-most);
  }
}

/** What the processors did since the host's boot, in the kernel's ticks. */
export interface ProcessorTimes {
  count: number;
  busy: number;
  all: number;
}

/** processors that worked on average, from 0 to `now.count`: the kernel's count of waiting for disks may go back a little */
export function busyBetween(before: ProcessorTimes, now: ProcessorTimes): number {
  const all = now.all - before.all;
  if (all <= 0) return 0;
  return now.count * Math.min(1, Math.max(0, (now.busy - before.busy) / all));
}

/** the text of /proc/stat: "cpu user nice system idle iowait irq softirq steal …", then the same for "cpu0", "cpu1", … */
export function processorTimes(stat: string): ProcessorTimes {
  const [, line = ""] = /^cpu +(.*)$/m.exec(stat) ?? [];
  // Further numbers, of guests, are counted in the first two as well.
  const ticks = line.split(" ").map(Number).slice(0, 8);
  const all = ticks.reduce((sum, each) => sum + each, 0);
  const [, , , idle = 0, waiting = 0] = ticks;
  return { count: stat.match(/^cpu\d/gm)?.length ?? 0, busy: all - idle - waiting, all };
}

function present(): ProcessorTimes {
  return processorTimes(kernelText("/proc/stat"));
}
