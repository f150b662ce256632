/**
 * Keeps sandboxes from using up the host's table of open files, for which the kernel has no limit per sandbox. When more
 * files are open on the host than sandboxes may bring about, the process that holds most of them is killed, in the
 * machine that holds most: as the kernel does when memory runs out.
 */

import { readdirSync, readFileSync, statSync } from "node:fs";
import type { LinuxMachine } from "../machines/machine.ts";
import { processesIn } from "./cgroup.ts";
import type { LogError } from "./launcher-log.ts";
import { type PeriodicTask, runEvery } from "./periodic-task.ts";

export interface OpenFilesWatchOptions {
  machines: () => Iterable<LinuxMachine>;
  /** open files on the host from which on machines lose processes; default half of what the kernel allows */
  most?: number;
  /** called with what was killed, and with errors of background work */
  logError: LogError;
}

/** how often to check, in ms; a check reads one small file */
const pause = 1000;
/** processes killed in one round at most */
const kills = 64;
/** share of what is allowed that a machine must hold before it loses a process: others may have used up the rest */
const share = 1 / 8;

interface Holder {
  pid: number;
  files: number;
}

export class OpenFilesWatch {
  readonly #options: OpenFilesWatchOptions;
  readonly #task: PeriodicTask;

  constructor(options: OpenFilesWatchOptions) {
    this.#options = options;
    this.#task = runEvery(pause, () => this.#check(), options.logError);
  }

  close(): void {
    this.#task.close();
  }

  /** open files on the host, and from where on machines lose processes */
  reading(): { now: number; most: number } {
    const [now = 0, , allowed = 0] = readFileSync("/proc/sys/fs/file-nr", "utf8").split("\t").map(Number);
    return { now, most: this.#options.most ?? Math.floor(allowed / 2) };
  }

  #check(): void {
    const { now, most } = this.reading();
    let excess = now - most;
    if (excess <= 0) return;
    const machines = [...this.#options.machines()].map((machine) => ({ machine, holders: holdersOf(machine) }));
    const worst = machines.sort((a, b) => total(b.holders) - total(a.holders))[0];
    if (worst === undefined || total(worst.holders) < most * share) return;
    // PID 1 is the agent, and holds few
    const victims = worst.holders.filter(({ pid }) => pid !== worst.machine.record.pid).slice(0, kills);
    for (const { pid, files } of victims) {
      if (excess <= 0) return;
      process.kill(pid, "SIGKILL");
      excess -= files;
      const why = `it held ${files} of the host's open files`;
      this.#options.logError(new Error(`Killed process ${pid} of machine "${worst.machine.id}": ${why}`), {
        session: worst.machine.id,
      });
    }
  }
}

/** its processes with the files each holds, most first */
function holdersOf(machine: LinuxMachine): Holder[] {
  return processesIn(machine.plan.cgroup)
    .map((pid) => ({ pid, files: openFilesOf(pid) }))
    .sort((a, b) => b.files - a.files);
}

/** 0 if the process has ended meanwhile; the kernel reports the number since 6.2, and before that counting takes long */
function openFilesOf(pid: number): number {
  try {
    return statSync(`/proc/${pid}/fd`).size || readdirSync(`/proc/${pid}/fd`).length;
  } catch {
    return 0;
  }
}

function total(holders: Holder[]): number {
  return holders.reduce((sum, { files }) => sum + files, 0);
}
