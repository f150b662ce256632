/**
 * Keeps sandboxes from using up, together, what the host has for compiled filters of system calls (net.core.bpf_jit_limit):
 * without it no sandbox starts. One sandbox has at most 128 (guest/confinement/filters.h), which may be 14 MB. When all filters of the
 * host take more than sandboxes may bring about, those with many may install no more for a while, and those with most lose
 * the processes that have them.
 */

import type { LinuxMachine } from "../machines/machine.ts";
import { kernelText } from "./kernel-file.ts";
import { type PeriodicTask, runEvery } from "./periodic-task.ts";
import { killProgram, programsOf } from "./programs.ts";

export interface FilterWatchOptions {
  machines: () => Iterable<LinuxMachine>;
  /** bytes of compiled filters on the host from which on machines lose processes; default half of what the kernel allows */
  most?: number;
  /** called with what was killed, and with errors of background work */
  logError: (error: unknown) => void;
}

interface Holder {
  pid: number;
  /** its own and those that it has inherited, besides the one that everything inside runs behind */
  filters: number;
}

/** how often to check, in ms; a check reads one small file */
const pause = 500;
/** filters that a machine may have in any case, and in general (FILTERS_MOST of guest/confinement/filters.h) */
const few = 16;
const usual = 128;
/** checks without shortage after which machines get the usual limit again */
const calm = 120;
/** bytes that a filter takes at most */
const largest = 112 << 10;

export class FilterWatch {
  readonly #options: FilterWatchOptions;
  readonly #task: PeriodicTask;
  readonly #most: number;
  /** machines with a lower limit, and checks since the last shortage */
  readonly #limited = new Set<LinuxMachine>();
  #calm = 0;
  /** bytes that the kernel had mapped at the last count of filters: filters cannot grow without it */
  #checked = 0;

  constructor(options: FilterWatchOptions) {
    this.#options = options;
    this.#most = options.most ?? allowed() / 2;
    this.#task = runEvery(pause, () => this.#check(), options.logError);
  }

  close(): void {
    this.#task.close();
  }

  #check(): void {
    if (this.#limited.size > 0 && ++this.#calm >= calm) this.#lift();
    const mapped = mappedMemory();
    if (mapped <= this.#most || Math.abs(mapped - this.#checked) < this.#most / 64) return;
    this.#checked = mapped;
    let excess = compiledFilters(kernelText("/proc/vmallocinfo")) - this.#most;
    if (excess <= 0) return;
    this.#calm = 0;
    this.#checked = 0;
    const machines = [...this.#options.machines()].map((machine) => ({ machine, holders: holdersOf(machine) }));
    const many = machines.filter(({ holders }) => total(holders) > few);
    for (const { machine } of many) this.#limit(machine, few);
    for (const { machine, holders } of many.sort((a, b) => total(b.holders) - total(a.holders))) {
      if (excess <= 0) return;
      for (const { pid } of holders) killProgram(pid);
      excess -= total(holders) * largest;
      const what = `they had ${total(holders)} of the filters of system calls for which the host has no room`;
      this.#options.logError(new Error(`Killed ${holders.length} processes of machine "${machine.id}": ${what}`));
    }
  }

  #lift(): void {
    const running = new Set(this.#options.machines());
    for (const machine of this.#limited) if (running.has(machine)) this.#limit(machine, usual);
    this.#limited.clear();
    this.#calm = 0;
  }

  #limit(machine: LinuxMachine, most: number): void {
    this.#limited.add(machine);
    // One that ends meanwhile, or whose agent is of an earlier build, has no answer.
    machine.limitFilters(most).catch(() => undefined);
  }
}

/** of lines "0xfrom-0xto SIZE caller …": bytes that hold compiled filters */
export function compiledFilters(vmallocinfo: string): number {
  return vmallocinfo
    .split("\n")
    .filter((line) => /bpf_(prog_pack|jit)/.test(line))
    .reduce((sum, line) => sum + Number(line.split(/\s+/)[1]), 0);
}

/** bytes that the kernel has mapped for itself, filters among them */
function mappedMemory(): number {
  return 1024 * Number(/^VmallocUsed:\s+(\d+) kB$/m.exec(kernelText("/proc/meminfo"))?.[1] ?? 0);
}

function holdersOf(machine: LinuxMachine): Holder[] {
  return programsOf(machine)
    .map((pid) => ({ pid, filters: filtersOf(kernelText(`/proc/${pid}/status`)) }))
    .filter(({ filters }) => filters > 0);
}

function filtersOf(status: string): number {
  return Number(/^Seccomp_filters:\s+(\d+)$/m.exec(status)?.[1] ?? 1) - 1;
}

function total(holders: Holder[]): number {
  return holders.reduce((sum, { filters }) => sum + filters, 0);
}

function allowed(): number {
  return Number(kernelText("/proc/sys/net/core/bpf_jit_limit")) || Number.POSITIVE_INFINITY;
}
