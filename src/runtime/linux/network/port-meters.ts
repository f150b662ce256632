/**
 * How many bytes come in and go out through each port of a machine, as its programs read and write them. They are
 * counted in the daemon, where nothing that runs in the machine can change them, and kept in its folder
 * (src/protocols/traffic-counts.ts has the format).
 */

import { rename, writeFile } from "node:fs/promises";
import type { Socket } from "node:net";
import { join } from "node:path";
import { nextInTurn } from "../../../base/concurrency/round-robin.ts";
import type { PortTraffic } from "../../../core/network/egress-log.ts";
import type { EgressTraffic } from "../../../protocols/egress-log.ts";
import { portCountsFile, type TrafficCounts, writeTrafficCounts } from "../../../protocols/traffic-counts.ts";
import { isMissing } from "../storage/json-file.ts";
import { readCounts } from "./traffic-counts.ts";

export interface PortMetersOptions {
  /** called when counts cannot be written */
  logError: (error: unknown) => void;
  /** how often counts are written while connections are open, in ms; a daemon that is killed loses what came after */
  every?: number;
}

/** files that are written at a time, except for a flush: with more machines each waits for its turn */
const mostWrites = 16;

interface Connection {
  port: number;
  socket: Socket;
  /** bytes that its socket had carried at the last measurement */
  seen: EgressTraffic;
}

interface Meter {
  /** by port, bytes that are not in the file yet; negative if bytes in flight did not arrive */
  counts: Map<number, TrafficCounts>;
  open: Set<Connection>;
  writing?: Promise<void> | undefined;
  failed: boolean;
}

export class PortMeters {
  readonly #options: PortMetersOptions;
  readonly #meters = new Map<string, Meter>();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: PortMetersOptions) {
    this.#options = options;
  }

  /** from now on: what the connection has carried to get this far is not counted */
  count(folder: string, port: number, socket: Socket): void {
    const meter = this.#meters.get(folder) ?? { counts: new Map(), open: new Set(), failed: false };
    this.#meters.set(folder, meter);
    this.#timer ??= setInterval(() => void this.#tick(), this.#options.every ?? 250).unref();
    const { bytesIn, bytesOut } = carriedBy(socket);
    const connection = { port, socket, seen: { bytesIn, bytesOut: bytesOut - socket.readableLength } };
    meter.open.add(connection);
    add(meter, port, { bytesIn: 0, bytesOut: 0, count: 1 });
    const closed = () => {
      measure(meter, connection);
      meter.open.delete(connection);
    };
    if (socket.closed) closed();
    else socket.once("close", closed);
  }

  /** resolves when what a machine's connections, or all, have carried until now is in the file */
  async flush(folder?: string): Promise<void> {
    const wanted = [...this.#meters].filter(([name]) => folder === undefined || name === folder);
    await Promise.all(wanted.map(([name, meter]) => this.#write(name, meter)));
  }

  /** its folder is about to be deleted: when this resolves, nothing writes there */
  async forget(folder: string): Promise<void> {
    const meter = this.#meters.get(folder);
    this.#meters.delete(folder);
    await meter?.writing;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
    await this.flush();
  }

  async #tick(): Promise<void> {
    const due = nextInTurn(this.#meters, mostWrites, (meter) => {
      for (const connection of meter.open) measure(meter, connection);
      if (!meter.writing && meter.counts.size > 0) return "due";
      return !meter.writing && meter.open.size === 0 ? "over" : "left";
    });
    await Promise.all(due.map(([folder, meter]) => this.#write(folder, meter)));
    if (this.#meters.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** one writing at a time: what comes meanwhile waits for the next */
  async #write(folder: string, meter: Meter): Promise<void> {
    while (meter.writing) await meter.writing;
    // Its folder may have been forgotten meanwhile.
    if (this.#meters.get(folder) !== meter) return;
    for (const connection of meter.open) measure(meter, connection);
    if (meter.counts.size === 0) return;
    meter.writing = this.#writeNow(folder, meter).finally(() => {
      meter.writing = undefined;
    });
    await meter.writing;
  }

  async #writeNow(folder: string, meter: Meter): Promise<void> {
    const fresh = meter.counts;
    meter.counts = new Map();
    try {
      await addToFile(folder, fresh);
      meter.failed = false;
    } catch (error) {
      // gone with its machine; other reasons pass, and what is not written yet is with the next
      if (isMissing(error)) return;
      for (const [port, counts] of fresh) add(meter, port, counts);
      if (!meter.failed) this.#options.logError(error);
      meter.failed = true;
    }
  }
}

/** what is in the file */
export async function readPorts(folder: string): Promise<PortTraffic[]> {
  const counts = await readCounts(fileIn(folder));
  return Object.entries(counts).map(([port, { count, ...bytes }]) => ({
    port: Number(port),
    connections: count,
    ...bytes,
  }));
}

function fileIn(folder: string): string {
  return join(folder, portCountsFile);
}

/** replaces the file as a whole */
async function addToFile(folder: string, fresh: Map<number, TrafficCounts>): Promise<void> {
  const file = fileIn(folder);
  const all = await readCounts(file);
  for (const [port, counts] of fresh) all[port] = sum(all[port], counts);
  await writeFile(`${file}.new`, writeTrafficCounts(all), { mode: 0o600 });
  await rename(`${file}.new`, file);
}

function carriedBy({ bytesWritten, bytesRead }: Socket): EgressTraffic {
  return { bytesIn: bytesWritten, bytesOut: bytesRead };
}

function measure(meter: Meter, connection: Connection): void {
  const { port, socket, seen } = connection;
  const now = carriedBy(socket);
  const [bytesIn, bytesOut] = [now.bytesIn - seen.bytesIn, now.bytesOut - seen.bytesOut];
  connection.seen = now;
  if (bytesIn !== 0 || bytesOut !== 0) add(meter, port, { bytesIn, bytesOut, count: 0 });
}

function add(meter: Meter, port: number, counts: TrafficCounts): void {
  meter.counts.set(port, sum(meter.counts.get(port), counts));
}

function sum(one: TrafficCounts | undefined, other: TrafficCounts): TrafficCounts {
  const { bytesIn, bytesOut, count } = one ?? { bytesIn: 0, bytesOut: 0, count: 0 };
  return { bytesIn: bytesIn + other.bytesIn, bytesOut: bytesOut + other.bytesOut, count: count + other.count };
}
