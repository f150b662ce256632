/**
 * What each session used over time: processors, memory, disk, network.
 *
 * A series covers the whole session, also over restarts of the daemon (sample-record.ts), with a bounded number of points. When it is
 * full, each two points become one, and from then on half as many are taken. The number of machines that are looked at in
 * a second is bounded, too, so with many machines the points are further apart.
 */

import { keepLast } from "../../base/bounded-map.ts";
import { eachBounded } from "../../base/concurrency/each-bounded.ts";
import type { Context } from "../context.ts";
import type { Usage } from "../ports/runtime.ts";
import { SampleRecord } from "./sample-record.ts";

/** A moment of a session. Network traffic is counted since its beginning. */
export interface Sample {
  at: number;
  /** average number of busy processors since the sample before */
  processors: number;
  /** bytes */
  memory: number;
  /** bytes of it that are file cache; unset in samples of earlier versions */
  cache?: number;
  /** bytes; unset where that needs a walk over the files */
  disk?: number;
  processes: number;
  network: Usage["network"];
}

export interface SampleQuery {
  from?: number | undefined;
  to?: number | undefined;
  /** at most one sample in this time, in ms */
  step?: number | undefined;
}

export interface SampleLimits {
  /** ms between two points of a new series */
  interval: number;
  /** most points of a series */
  points: number;
  /** most machines that are looked at in a round */
  atOnce: number;
  /** most series of sessions that have ended */
  ended: number;
}

const usualLimits: SampleLimits = { interval: 2000, points: 240, atOnce: 20, ended: 200 };
/** ms between two rounds */
const round = 1000;
/** how many machines a round asks at the same time */
const asked = 4;

export interface Point extends Omit<Sample, "processors"> {
  /** processor time so far, in ms */
  cpuTime: number;
}

export interface Series {
  /** ms between two points, at least */
  interval: number;
  points: Point[];
}

type SamplesContext = Pick<Context, "runtime" | "now" | "logError" | "sampleFiles">;

export class Samples {
  readonly #context: SamplesContext;
  readonly #limits: SampleLimits;
  readonly #live = new Map<string, Series>();
  readonly #ended = new Map<string, Series>();
  readonly #record: SampleRecord | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isBusy = false;

  constructor(context: SamplesContext, limits: SampleLimits = usualLimits) {
    this.#context = context;
    this.#limits = limits;
    this.#record = context.sampleFiles && new SampleRecord(context.sampleFiles, context.logError);
  }

  open(): void {
    const isLive = new Set(this.#context.runtime.machines().map(({ id }) => id));
    const take = (series: Series, point: Point) => this.#push(series, point);
    const recorded = this.#record?.load(() => ({ interval: this.#limits.interval, points: [] }), take) ?? [];
    for (const [id, series] of recorded) (isLive.has(id) ? this.#live : this.#ended).set(id, series);
    keepLast(this.#ended, this.#limits.ended);
    this.#timer = setInterval(() => void this.look().catch(this.#context.logError), round).unref();
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#record?.write(this.#all(), this.#context.now());
  }

  /** takes a point of each machine whose turn it is, those that waited longest first */
  async look(): Promise<void> {
    if (this.#isBusy) return;
    this.#isBusy = true;
    try {
      const machines = new Map(this.#context.runtime.machines().map((machine) => [machine.id, machine]));
      for (const id of this.#live.keys()) if (!machines.has(id)) this.#end(id);
      for (const id of machines.keys())
        if (!this.#live.has(id)) this.#live.set(id, { interval: this.#limits.interval, points: [] });
      const now = this.#context.now();
      const due = [...this.#live]
        .map(([id, { points, interval }]) => ({ id, last: points.at(-1)?.at ?? 0, interval }))
        .filter(({ last, interval }) => now - last >= interval)
        .sort((a, b) => a.last - b.last)
        .slice(0, this.#limits.atOnce);
      // A machine that ends meanwhile has no more points.
      await eachBounded(asked, due, async ({ id }) => {
        const usage = await machines
          .get(id)
          ?.usage()
          .catch(() => undefined);
        if (usage) this.#add(id, usage);
      });
      if (this.#record?.isDue(now)) await this.#record.write(this.#all(), now);
    } finally {
      this.#isBusy = false;
    }
  }

  /** oldest first; the first point of a series is only where the next one begins */
  of(id: string, { from = 0, to = Number.POSITIVE_INFINITY, step }: SampleQuery = {}): Sample[] {
    const { points } = this.#live.get(id) ?? this.#ended.get(id) ?? { points: [] };
    const first = points.findIndex(({ at }) => at >= from);
    if (first < 0) return [];
    const chosen = points.slice(Math.max(0, first - 1)).filter(({ at }) => at <= to);
    const [begin, ...rest] = chosen;
    if (!begin) return [];
    let before = begin;
    return (step === undefined ? rest : inSteps(rest, step)).map((point) => {
      const { cpuTime, ...sample } = point;
      const processors = Math.max(0, cpuTime - before.cpuTime) / Math.max(1, point.at - before.at);
      before = point;
      return { ...sample, processors };
    });
  }

  #add(id: string, { cpuTime, memory, cache, disk, processes, network }: Usage): void {
    const series = this.#live.get(id);
    if (!series) return;
    const at = this.#context.now();
    const some = { ...(cache !== undefined && { cache }), ...(disk !== undefined && { disk }) };
    const point = { at, cpuTime, memory, ...some, processes, network };
    this.#push(series, point);
    this.#record?.add(id, point);
  }

  *#all(): Generator<[string, Series]> {
    yield* this.#ended;
    yield* this.#live;
  }

  #push(series: Series, point: Point): void {
    // After the clock was set back, points would not be in order.
    if ((series.points.at(-1)?.at ?? 0) >= point.at) series.points = [];
    series.points.push(point);
    if (series.points.length <= this.#limits.points) return;
    const [first, ...rest] = series.points;
    const pairs = rest.flatMap((point, index) => (index % 2 === 1 ? [merged([rest[index - 1] ?? point, point])] : []));
    // An odd number leaves the newest alone.
    series.points = [...(first ? [first] : []), ...pairs, ...(rest.length % 2 === 1 ? rest.slice(-1) : [])];
    series.interval *= 2;
  }

  #end(id: string): void {
    const series = this.#live.get(id);
    this.#live.delete(id);
    if (series && series.points.length > 1) this.#ended.set(id, series);
    keepLast(this.#ended, this.#limits.ended);
  }
}

/** one point for each step that has any */
function inSteps(points: readonly Point[], step: number): Point[] {
  const groups = Map.groupBy(points, ({ at }) => Math.floor(at / step));
  return [...groups.values()].map(merged);
}

/** the newest of some points in order, with the averages of what goes up and down */
function merged(points: readonly Point[]): Point {
  const newest = points.at(-1);
  if (!newest) throw new Error("There is no point to merge");
  const average = (value: (point: Point) => number) =>
    Math.round(points.reduce((sum, point) => sum + value(point), 0) / points.length);
  return {
    ...newest,
    memory: average(({ memory }) => memory),
    processes: average(({ processes }) => processes),
    ...(newest.cache !== undefined && { cache: average(({ cache }) => cache ?? newest.cache ?? 0) }),
    ...(newest.disk !== undefined && { disk: average(({ disk }) => disk ?? newest.disk ?? 0) }),
  };
}
