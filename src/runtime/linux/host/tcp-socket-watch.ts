/**
 * Keeps sandboxes from using up what the host has for sockets of TCP. The kernel charges a connection to a sandbox only once
 * a program accepts it, and keeps one whose program has closed it (an orphan) for as long as its last bytes are not delivered;
 * of orphans the whole host has one table. When there are more of either than sandboxes may bring about, the machine with
 * most sockets loses its processes, as when memory runs out.
 */

import { totalmem } from "node:os";
import type { LinuxMachine } from "../machines/machine.ts";
import { kernelText } from "./kernel-file.ts";
import { type PeriodicTask, runEvery } from "./periodic-task.ts";
import { killProgram, programsOf } from "./programs.ts";

export interface TcpSocketWatchOptions {
  machines: () => Iterable<LinuxMachine>;
  /** sockets of TCP on the host from which on machines lose processes; default as many as fill a sixteenth of its memory */
  most?: number;
  /** orphans on the host from which on machines lose processes; default half of what the kernel allows */
  mostOrphans?: number;
  /** called with what was killed, and with errors of background work */
  logError: (error: unknown) => void;
}

/** sockets of TCP on the whole host; those of `orphans` are among them */
export interface TcpSockets {
  sockets: number;
  orphans: number;
}

/** how often to check, in ms; a check reads one small file */
const pause = 200;
/** what the kernel keeps for a socket without any data, in bytes */
const socketSize = 4096;
/** share of what is allowed that a machine must hold before it loses processes: others may have used up the rest */
const share = 1 / 8;

export class TcpSocketWatch {
  readonly #options: TcpSocketWatchOptions;
  readonly #task: PeriodicTask;
  readonly #most: TcpSockets;

  constructor(options: TcpSocketWatchOptions) {
    this.#options = options;
    this.#most = {
      sockets: options.most ?? Math.floor(totalmem() / 16 / socketSize),
      orphans: options.mostOrphans ?? allowedOrphans() / 2,
    };
    this.#task = runEvery(pause, () => this.#check(), options.logError);
  }

  close(): void {
    this.#task.close();
  }

  #check(): void {
    const now = parseTcpSockets(kernelText("/proc/net/sockstat"));
    const kind = (["sockets", "orphans"] as const).find((each) => now[each] > this.#most[each]);
    if (kind === undefined) return;
    const machines = [...this.#options.machines()].map((machine) => ({ machine, sockets: tcpSocketsOf(machine) }));
    const worst = machines.sort((a, b) => b.sockets - a.sockets)[0];
    if (worst === undefined || worst.sockets < this.#most[kind] * share) return;
    const { machine, sockets } = worst;
    const victims = programsOf(machine);
    for (const pid of victims) killProgram(pid);
    const what = `it had ${sockets} of the host's ${now.sockets} sockets of TCP, ${now.orphans} of which were orphans`;
    this.#options.logError(new Error(`Killed ${victims.length} processes of machine "${machine.id}": ${what}`));
  }
}

/** of the line "TCP: inuse 4 orphan 0 tw 38 alloc 30 mem 125", in which orphan and alloc are the whole host's */
export function parseTcpSockets(sockstat: string): TcpSockets {
  const [, orphans = 0, sockets = 0] = /^TCP:.* orphan (\d+) .*alloc (\d+)/m.exec(sockstat)?.map(Number) ?? [];
  return { sockets, orphans };
}

/** those of its own network that have an address, including connections that no program has accepted, and orphans */
export function tcpSocketsOf({ record }: LinuxMachine): number {
  return ["sockstat", "sockstat6"].reduce((sum, name) => {
    const text = kernelText(`/proc/${record.pid}/net/${name}`);
    return sum + Number(/^TCP6?: inuse (\d+)/m.exec(text)?.[1] ?? 0);
  }, 0);
}

function allowedOrphans(): number {
  return Number(kernelText("/proc/sys/net/ipv4/tcp_max_orphans")) || Number.POSITIVE_INFINITY;
}
