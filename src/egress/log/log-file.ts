/**
 * Writes events to files, two of a bounded size for each machine, and how many bytes went to and came from each host
 * to a third. A million decisions of a sandbox in a second become a few hundred lines, and no connection waits for the log.
 */

import { appendFile, open, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { nextInTurn } from "../../base/concurrency/round-robin.ts";
import { codeOf } from "../../base/error-code.ts";
import {
  type EgressDecision,
  type EgressLogLine,
  type EgressTraffic,
  egressLogFile,
  lastEgressLineId,
  longestEgressLine,
  olderEgressLogFile,
  shortenedDecision,
  writeEgressLine,
} from "../../protocols/egress-log.ts";
import {
  hostCountsFile,
  readTrafficCounts,
  type TrafficCounts,
  writeTrafficCounts,
} from "../../protocols/traffic-counts.ts";
import { writeError } from "./error-log.ts";
import type { EgressEvent, EgressLog } from "./log.ts";

export interface LogFilesOptions {
  /** has a folder for each machine; a machine without one is not logged */
  directory: string;
  now: () => number;
  /** when a file is full, in bytes */
  mostBytes?: number;
  /** how long events are gathered before they are written, in ms */
  every?: number;
}

/** lines of a machine in one write, and hosts that are counted separately */
const mostLines = 256;
const mostHosts = 1000;
const others = "(others)";
/** how long a machine's counts stay in memory after the last change, in ms */
const idle = 60_000;
/** machines whose logs are written at a time, except for a flush: with more machines each waits for its turn */
const mostWrites = 32;

interface Line extends EgressTraffic {
  at: number;
  event: EgressDecision;
  count: number;
  ended: number;
}

interface MachineLog {
  lines: Map<string, Line>;
  dropped: number;
  /** the end of the file; undefined until it was read */
  end?: LogEnd | undefined;
  hosts: Map<string, TrafficCounts>;
  hostsRead: boolean;
  hostsChanged: boolean;
  usedAt: number;
  writing?: Promise<void> | undefined;
}

interface LogEnd {
  /** bytes of the file that is written to */
  size: number;
  lastId: number;
  /** whether the file ends with part of a line, from a process that was killed while writing */
  torn: boolean;
}

export class LogFiles implements EgressLog {
  readonly #options: LogFilesOptions;
  readonly #machines = new Map<string, MachineLog>();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: LogFilesOptions) {
    this.#options = options;
  }

  decided(event: EgressEvent): void {
    const line = this.#line(event);
    if (line) line.count++;
  }

  ended(event: EgressEvent, { bytesIn, bytesOut }: EgressTraffic): void {
    const line = this.#line(event);
    if (!line) return;
    line.ended++;
    line.bytesIn += bytesIn;
    line.bytesOut += bytesOut;
  }

  moved(machine: string, host: string, { bytesIn, bytesOut }: EgressTraffic, begun = false): void {
    const log = this.#log(machine);
    const name = log.hosts.has(host) || log.hosts.size < mostHosts ? host : others;
    const counts = log.hosts.get(name) ?? { bytesIn: 0, bytesOut: 0, count: 0 };
    counts.bytesIn += bytesIn;
    counts.bytesOut += bytesOut;
    if (begun) counts.count++;
    log.hosts.set(name, counts);
    log.hostsChanged = true;
  }

  unseen(machine: string, count: number): void {
    this.#log(machine).dropped += count;
  }

  /** writes the gathered events; resolves when they are in the files */
  async flush(machine?: string): Promise<void> {
    const wanted = [...this.#machines].filter(([name]) => machine === undefined || name === machine);
    await Promise.all(wanted.map(([name, log]) => this.#write(name, log)));
  }

  #line(event: EgressEvent): Line | undefined {
    const { machine, ...said } = event;
    const fields = shortenedDecision(said);
    const log = this.#log(machine);
    const key = JSON.stringify(fields);
    const known = log.lines.get(key);
    if (known) return known;
    if (log.lines.size >= mostLines) {
      log.dropped++;
      return undefined;
    }
    const line: Line = { at: this.#options.now(), event: fields, count: 0, ended: 0, bytesIn: 0, bytesOut: 0 };
    log.lines.set(key, line);
    return line;
  }

  #log(machine: string): MachineLog {
    let log = this.#machines.get(machine);
    if (!log) {
      log = { lines: new Map(), dropped: 0, hosts: new Map(), hostsRead: false, hostsChanged: false, usedAt: 0 };
      this.#machines.set(machine, log);
    }
    log.usedAt = this.#options.now();
    this.#timer ??= setInterval(() => void this.#tick(), this.#options.every ?? 250).unref();
    return log;
  }

  async #tick(): Promise<void> {
    const old = this.#options.now() - idle;
    const due = nextInTurn(this.#machines, mostWrites, (log) => {
      if (!log.writing && hasNews(log)) return "due";
      return !log.writing && log.usedAt < old ? "over" : "left";
    });
    if (this.#machines.size === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    }
    await Promise.all(due.map(([machine, log]) => this.#write(machine, log)));
  }

  /** one write at a time: later events are gathered meanwhile */
  async #write(machine: string, log: MachineLog): Promise<void> {
    while (log.writing) await log.writing;
    if (!hasNews(log)) return;
    log.writing = this.#writeNow(machine, log).finally(() => {
      log.writing = undefined;
    });
    await log.writing;
  }

  async #writeNow(machine: string, log: MachineLog): Promise<void> {
    const folder = join(this.#options.directory, machine);
    try {
      if (log.lines.size > 0 || log.dropped > 0) await this.#writeLines(folder, log);
      if (log.hostsChanged) await writeHosts(folder, log);
    } catch (error) {
      // The folder is gone with its machine, or the disk is full: traffic continues in both cases.
      log.lines.clear();
      log.dropped = 0;
      log.end = undefined;
      log.hostsChanged = false;
      if (codeOf(error) !== "ENOENT") writeError(`Cannot write the egress log of machine "${machine}":`, error);
    }
  }

  async #writeLines(folder: string, log: MachineLog): Promise<void> {
    const file = join(folder, egressLogFile);
    const older = join(folder, olderEgressLogFile);
    log.end ??= await endOf(file, older);
    const { end } = log;
    const lines = [...log.lines.values()].map(({ at, event, ...counts }): EgressLogLine => {
      return { id: ++end.lastId, at, ...event, ...counts };
    });
    if (log.dropped > 0) lines.push({ id: ++end.lastId, at: this.#options.now(), dropped: log.dropped });
    log.lines.clear();
    log.dropped = 0;
    const text = lines.map(writeEgressLine).join("");
    if (end.size > 0 && end.size + Buffer.byteLength(text) > (this.#options.mostBytes ?? 2 << 20)) {
      await rename(file, older);
      end.size = 0;
      end.torn = false;
    }
    const whole = end.torn ? `\n${text}` : text;
    await appendFile(file, whole, { mode: 0o600 });
    end.torn = false;
    end.size += Buffer.byteLength(whole);
  }
}

function hasNews({ lines, dropped, hostsChanged }: MachineLog): boolean {
  return lines.size > 0 || dropped > 0 || hostsChanged;
}

/** where an earlier process stopped writing */
async function endOf(file: string, older: string): Promise<LogEnd> {
  const { size, tail } = await tailOf(file);
  const id = lastEgressLineId(tail) ?? lastEgressLineId((await tailOf(older)).tail) ?? 0;
  return { size, lastId: id, torn: tail !== "" && !tail.endsWith("\n") };
}

/** the last bytes of a file, at least the length of a line; empty if the file is missing */
async function tailOf(path: string): Promise<{ size: number; tail: string }> {
  const file = await open(path).catch((error) => {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  });
  if (!file) return { size: 0, tail: "" };
  try {
    const { size } = await file.stat();
    const length = Math.min(size, longestEgressLine);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, size - length);
    return { size, tail: buffer.toString("latin1", 0, bytesRead) };
  } finally {
    await file.close();
  }
}

/** replaces the file as a whole, including what an earlier process has counted */
async function writeHosts(folder: string, log: MachineLog): Promise<void> {
  const file = join(folder, hostCountsFile);
  if (!log.hostsRead) {
    for (const [host, before] of Object.entries(await readHosts(file))) {
      const counts = log.hosts.get(host) ?? { bytesIn: 0, bytesOut: 0, count: 0 };
      counts.bytesIn += before.bytesIn;
      counts.bytesOut += before.bytesOut;
      counts.count += before.count;
      log.hosts.set(host, counts);
    }
    log.hostsRead = true;
  }
  log.hostsChanged = false;
  await writeFile(`${file}.new`, writeTrafficCounts(Object.fromEntries(log.hosts)), { mode: 0o600 });
  await rename(`${file}.new`, file);
}

async function readHosts(file: string): Promise<Record<string, TrafficCounts>> {
  try {
    return readTrafficCounts(await readFile(file, "utf8"));
  } catch (error) {
    if (codeOf(error) === "ENOENT") return {};
    throw error;
  }
}
