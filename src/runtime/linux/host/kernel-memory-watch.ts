/**
 * Keeps sandboxes from filling the host's memory with directories. The kernel keeps 4.4 KB for each open directory of btrfs, and
 * each open directory of an overlay may keep a copy of its whole listing; it charges neither to a sandbox. When the kernel
 * itself uses more memory than sandboxes may bring about, the machine whose open directories are largest loses its processes, as
 * when memory runs out.
 */

import { randomInt } from "node:crypto";
import { statSync } from "node:fs";
import { totalmem } from "node:os";
import type { LinuxMachine } from "../machines/machine.ts";
import { kernelText } from "./kernel-file.ts";
import { type PeriodicTask, runEvery } from "./periodic-task.ts";
import { killProgram, programsOf } from "./programs.ts";

export interface KernelMemoryWatchOptions {
  machines: () => Iterable<LinuxMachine>;
  /** bytes of the kernel's own memory from which on machines lose processes; default an eighth of the host's memory */
  most?: number;
  /** called with what was killed, and with errors of background work */
  logError: (error: unknown) => void;
}

/** how often to check, in ms; a check reads one small file */
const pause = 500;
/** after how long directories are counted again although the memory has not grown much, in ms */
const again = 10_000;
/** what an open directory costs besides its listing, in bytes */
const openSize = 4400;
/** bytes of memory for each byte of a directory's size, which is twice the length of its names: at least this many */
const listingSize = 1;
/** share of what is allowed that a machine must hold before it loses processes: others may have used up the rest */
const share = 1 / 8;
/** processes of a machine, and open files of each, that are sampled: a sandbox may have millions, and the daemon must not stall */
const mostProcesses = 16;
const mostFiles = 1024;

export class KernelMemoryWatch {
  readonly #options: KernelMemoryWatchOptions;
  readonly #task: PeriodicTask;
  readonly #most: number;
  /** memory or time at which directories are counted next: counting takes long, and is useless if others use the memory */
  #next: number;
  #nextAt = 0;

  constructor(options: KernelMemoryWatchOptions) {
    this.#options = options;
    this.#most = options.most ?? Math.floor(totalmem() / 8);
    this.#next = this.#most;
    this.#task = runEvery(pause, () => this.#check(), options.logError);
  }

  close(): void {
    this.#task.close();
  }

  #check(): void {
    const now = kernelMemory();
    if (now <= this.#most) this.#next = this.#most;
    if (now <= this.#most || (now <= this.#next && performance.now() < this.#nextAt)) return;
    this.#nextAt = performance.now() + again;
    const machines = [...this.#options.machines()].map((machine) => ({ machine, bytes: directoriesOf(machine) }));
    const worst = machines.sort((a, b) => b.bytes - a.bytes)[0];
    if (worst === undefined || worst.bytes < this.#most * share) {
      this.#next = now + this.#most * share;
      return;
    }
    const victims = programsOf(worst.machine);
    for (const pid of victims) killProgram(pid);
    const what = `its open directories took about ${Math.round(worst.bytes)} bytes of the host's memory`;
    this.#options.logError(new Error(`Killed ${victims.length} processes of machine "${worst.machine.id}": ${what}`));
  }
}

/** bytes that the kernel uses for itself and cannot give back */
export function kernelMemory(): number {
  return 1024 * Number(/^SUnreclaim:\s+(\d+) kB$/m.exec(kernelText("/proc/meminfo"))?.[1] ?? 0);
}

/** estimate of the bytes that the open directories of a machine take */
function directoriesOf(machine: LinuxMachine): number {
  return estimate(programsOf(machine), mostProcesses, (pid) => {
    const size = Number(/^FDSize:\s+(\d+)$/m.exec(kernelText(`/proc/${pid}/status`))?.[1] ?? 0);
    return estimate([...Array(size).keys()], mostFiles, (fd) => sizeOf(`/proc/${pid}/fd/${fd}`));
  });
}

/** estimates the sum over all from a random sample */
export function estimate(all: number[], most: number, size: (one: number) => number): number {
  const some = all.length <= most ? all : Array.from({ length: most }, () => all[randomInt(all.length)] ?? 0);
  const sum = some.reduce((before, one) => before + size(one), 0);
  return some.length === 0 ? 0 : (sum * all.length) / some.length;
}

/** 0 for what is not a directory, is gone, or is readable only inside the sandbox */
function sizeOf(path: string): number {
  try {
    const file = statSync(path, { throwIfNoEntry: false });
    return file?.isDirectory() ? openSize + file.size * listingSize : 0;
  } catch {
    return 0;
  }
}
