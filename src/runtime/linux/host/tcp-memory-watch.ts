/**
 * Keeps sandboxes from using up the memory that the host has for TCP. The kernel charges what a connection holds to a
 * sandbox only once a program accepts the connection: connections in the queues of listening sockets are charged to no sandbox, and all
 * of them together may fill the kernel's share for the whole host. When TCP holds more than sandboxes may bring about, the
 * machine with most bytes in such connections loses the processes that listen: as the kernel does when memory runs out.
 */

import { readdirSync, readlinkSync } from "node:fs";
import type { LinuxMachine } from "../machines/machine.ts";
import { kernelText } from "./kernel-file.ts";
import type { LogError } from "./launcher-log.ts";
import { type PeriodicTask, runEvery } from "./periodic-task.ts";
import { killProgram, programsOf } from "./programs.ts";
import { tcpSocketsOf } from "./tcp-socket-watch.ts";

export interface TcpMemoryWatchOptions {
  machines: () => Iterable<LinuxMachine>;
  /** pages of TCP on the host from which on machines lose processes; default half of where the kernel begins to save */
  most?: number;
  /** called with what was killed, and with errors of background work */
  logError: LogError;
}

/** how often to check, in ms; a check reads one small file */
const pause = 100;
const pageSize = 4096;
/** share of what is allowed that a machine must hold before it loses processes: others may have used up the rest */
const share = 1 / 8;
/** sockets of a machine that are checked one by one: the kernel takes about 10 µs for each, while the daemon waits */
const mostLines = 8192;

/** the connections in a machine's network namespace that no program has accepted */
export interface Unaccepted {
  /** bytes that were received on them */
  bytes: number;
  /** inodes of the sockets in whose queues they are */
  listeners: string[];
}

export class TcpMemoryWatch {
  readonly #options: TcpMemoryWatchOptions;
  readonly #task: PeriodicTask;
  readonly #most: number;

  constructor(options: TcpMemoryWatchOptions) {
    this.#options = options;
    this.#most = options.most ?? pressure() / 2;
    this.#task = runEvery(pause, () => this.#check(), options.logError);
  }

  close(): void {
    this.#task.close();
  }

  /** bytes of TCP on the host, and from where on machines lose processes */
  reading(): { now: number; most: number } {
    return { now: tcpPages() * pageSize, most: Math.floor(this.#most * pageSize) };
  }

  #check(): void {
    if (tcpPages() <= this.#most) return;
    const machines = [...this.#options.machines()];
    const crowded = machines.filter((machine) => tcpSocketsOf(machine) > mostLines);
    if (crowded.length > 0) {
      this.#end(crowded);
      return;
    }
    const held = machines.map((machine) => ({ machine, ...unacceptedOf(machine) }));
    const worst = held.sort((a, b) => b.bytes - a.bytes)[0];
    if (worst === undefined || worst.bytes < this.#most * pageSize * share) return;
    const { machine, bytes } = worst;
    const sockets = new Set(worst.listeners.map((inode) => `socket:[${inode}]`));
    const processes = programsOf(machine);
    const holders = processes.filter((pid) => holdsOneOf(pid, sockets));
    // A socket may be in transit between two processes, and held by neither.
    const victims = holders.length > 0 ? holders : processes;
    for (const pid of victims) killProgram(pid);
    const what = `${bytes} bytes waited in connections that it did not accept`;
    const error = new Error(`Killed ${victims.length} processes of machine "${machine.id}": ${what}`);
    this.#options.logError(error, { session: machine.id });
  }

  /** for machines with very many sockets: each takes at least a page, and checking all of them takes too long */
  #end(machines: LinuxMachine[]): void {
    for (const machine of machines) {
      const victims = programsOf(machine);
      for (const pid of victims) killProgram(pid);
      const what = `it had more than ${mostLines} sockets of TCP while the host had no room for more`;
      this.#options.logError(new Error(`Killed ${victims.length} processes of machine "${machine.id}": ${what}`));
    }
  }
}

/** lines of /proc/net/tcp or tcp6: "sl local remote state tx:rx tr:when retransmits uid timeout inode …" */
export function parseUnaccepted(text: string): Unaccepted {
  const found: Unaccepted = { bytes: 0, listeners: [] };
  for (const line of text.split("\n").slice(1)) {
    const [, , , state, queues = "", , , , , inode = ""] = line.trim().split(/\s+/);
    const received = Number.parseInt(queues.split(":")[1] ?? "0", 16);
    // Of a listening socket the number is that of connections in its queue; what has no inode has no owner.
    if (state === listening && received > 0) found.listeners.push(inode);
    else if (state !== listening && inode === "0") found.bytes += received;
  }
  return found;
}

const listening = "0A";

function unacceptedOf(machine: LinuxMachine): Unaccepted {
  const parts = ["tcp", "tcp6"].map((name) => parseUnaccepted(kernelText(`/proc/${machine.record.pid}/net/${name}`)));
  return {
    bytes: parts.reduce((sum, { bytes }) => sum + bytes, 0),
    listeners: parts.flatMap(({ listeners }) => listeners),
  };
}

function holdsOneOf(pid: number, sockets: Set<string>): boolean {
  try {
    return readdirSync(`/proc/${pid}/fd`).some((fd) => sockets.has(linkOf(`/proc/${pid}/fd/${fd}`)));
  } catch {
    return false;
  }
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}

/** pages that all TCP of the host holds */
export function tcpPages(): number {
  return Number(/^TCP:.* mem (\d+)/m.exec(kernelText("/proc/net/sockstat"))?.[1] ?? 0);
}

/** pages of TCP from which on the kernel gives sockets less */
function pressure(): number {
  return Number(kernelText("/proc/sys/net/ipv4/tcp_mem").split(/\s+/)[1] ?? Number.POSITIVE_INFINITY);
}
