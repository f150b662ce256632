/**
 * The pool of prepared machines. `hot` ones are booted from an image, `warm` ones wait for any root. It is refilled one
 * prepared machine at a time, and only while nothing is being booted, so that filling does not slow a caller down. Callers
 * use a new machine at once, so filling also waits while commands start and machines stop, but not for long. Hot ones may
 * be set up already: each is replaced by one with the setup that its taker wanted, so that the pool has what callers use.
 *
 * Hot ones are of the default image. While callers use other images too, up to half of them are of these (RecentImages);
 * they are made last.
 */

import { SharedRun } from "../../../base/concurrency/single-flight.ts";
import type { Limits, MachineSetup, NetworkMode } from "../../../core/ports/runtime.ts";
import { type MachinePreparer, type PreparedMachine, type Root, setUp } from "./prepared-machine.ts";
import { RecentImages, recency } from "./recent-images.ts";

export interface PoolSize {
  hot: number;
  warm: number;
}

export interface PoolOptions {
  size: PoolSize;
  maker: MachinePreparer;
  network: NetworkMode;
  limits: Limits;
  /** key of the default image */
  image: string;
  /** what hot prepared machines of an image are booted from; undefined when there is no such image */
  root: (image: string) => Promise<HotRoot | undefined>;
  /** called with errors of background work */
  logError: (error: unknown) => void;
}

/** A root with its name, and as whom and where its commands usually start. */
interface HotRoot extends Root {
  key: string;
  /** the version of the image, which must stay while a machine is booted from it */
  reference: string;
  user: string;
  cwd: string;
}

/** How many hot prepared machines an image should have. */
interface Share {
  image: string;
  root: HotRoot;
  count: number;
}

type Kind = keyof PoolSize;

/** What to make next; a root for a hot one, and perhaps a setup. */
interface Missing {
  kind: Kind;
  image?: string;
  root?: HotRoot;
  setup?: MachineSetup | undefined;
}

/** What the taker of a hot machine wanted. */
interface Demand {
  /** of the root */
  key: string;
  setup: MachineSetup | undefined;
}

interface Entry {
  /** of the root it is booted from; empty for a warm one */
  key: string;
  /** of the image; undefined for a warm one */
  reference: string | undefined;
  prepared: PreparedMachine;
}

/** how long nothing must have happened before the pool fills, in ms */
const quiet = 20;
/** how long commands and stops may delay it, in ms */
const longestDelay = 100;
const pauseAfterError = 5000;

export class Pool {
  readonly #options: PoolOptions;
  readonly #preparedMachines: Record<Kind, Entry[]> = { hot: [], warm: [] };
  /** of the hot ones that were taken and not replaced yet */
  #demands: Demand[] = [];
  readonly #recent: RecentImages;
  /** fills once no image but the default one was used for a while */
  #forgetting: NodeJS.Timeout | undefined;
  /** the version of the image that a machine is being booted from */
  #making: string | undefined;
  readonly #filling = new SharedRun<void>();
  #timer: NodeJS.Timeout | undefined;
  /** when it was to begin to fill, in ms since any moment; undefined while it is not to begin later */
  #dueSince: number | undefined;
  #busy = 0;
  #closed = false;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#recent = new RecentImages(Math.floor(options.size.hot / 2));
  }

  /** a booted prepared machine made for exactly this root of an image, if there is one: with this setup, or without any */
  takeHot(image: string, key: string, setup?: MachineSetup): PreparedMachine | undefined {
    if (image !== this.#options.image && this.#options.size.hot > 1) this.#noteUse(image);
    const { hot } = this.#preparedMachines;
    const find = (wanted: string | undefined) =>
      hot.findIndex((entry) => entry.key === key && entry.prepared.setup === wanted);
    this.#demands.push({ key, setup });
    if (this.#demands.length > this.#options.size.hot) this.#demands.shift();
    for (;;) {
      const same = find(setup?.key);
      const at = same < 0 ? find(undefined) : same;
      if (at < 0) this.#giveWay(key);
      const [entry] = at < 0 ? [] : hot.splice(at, 1);
      if (!entry || this.#options.maker.lives(entry.prepared)) return entry?.prepared;
      // it has just died, and we had not heard of it
      this.#discard(entry.prepared).catch(this.#options.logError);
    }
  }

  takeWarm(): PreparedMachine | undefined {
    return this.#preparedMachines.warm.shift()?.prepared;
  }

  /** a caller is at work: filling waits until the returned function is called */
  begin(): () => void {
    this.#busy++;
    this.#cancel();
    return () => {
      this.#busy--;
      this.fill();
    };
  }

  /** a caller uses a machine: filling that has not begun waits a moment longer */
  used(): void {
    if (this.#dueSince !== undefined && performance.now() - this.#dueSince < longestDelay) this.#timer?.refresh();
  }

  /** begins to fill in a moment, if something is missing */
  fill(after = quiet): void {
    if (this.#closed || this.#busy > 0) return;
    clearTimeout(this.#timer);
    this.#dueSince = performance.now();
    this.#timer = setTimeout(() => {
      this.#dueSince = undefined;
      void this.#filling.run(() => this.#fillUp());
    }, after);
    this.#timer.unref();
  }

  /** resolves when nothing is missing, or when filling it failed */
  async full(): Promise<void> {
    this.#cancel();
    await this.#filling.run(() => this.#fillUp());
  }

  /** the launcher died, and prepared machines without a root with it */
  orphaned(): void {
    const dead = this.#preparedMachines.warm.splice(0);
    void Promise.all(dead.map(({ prepared }) => this.#discard(prepared))).catch(this.#options.logError);
  }

  /** the versions of images that must stay for prepared machines */
  get references(): string[] {
    const all = this.#preparedMachines.hot.map(({ reference }) => reference);
    return [...new Set([...all, this.#making])].filter((reference) => reference !== undefined);
  }

  /** ends hot prepared machines of images that were deleted or changed; resolves when nothing needs these any more */
  async refresh(): Promise<void> {
    if (this.#closed || this.#options.size.hot === 0) return;
    await this.#filling.current;
    await this.#discardOthers(await this.#shares());
    this.fill();
  }

  /** how many wait */
  get size(): PoolSize {
    return { hot: this.#preparedMachines.hot.length, warm: this.#preparedMachines.warm.length };
  }

  /** whether a caller is at work */
  get isBusy(): boolean {
    return this.#busy > 0;
  }

  /** ends all prepared machines, and makes no others */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#forgetting);
    await this.empty();
  }

  /** ends all prepared machines */
  async empty(): Promise<void> {
    this.#cancel();
    await this.#filling.current;
    const all = [...this.#preparedMachines.hot.splice(0), ...this.#preparedMachines.warm.splice(0)];
    await Promise.all(all.map(({ prepared }) => this.#discard(prepared)));
  }

  #cancel(): void {
    clearTimeout(this.#timer);
    this.#dueSince = undefined;
  }

  async #fillUp(): Promise<void> {
    try {
      while (!this.#closed && this.#busy === 0) {
        const missing = await this.#missing();
        if (missing === undefined) return;
        await this.#add(missing);
      }
    } catch (error) {
      this.#options.logError(error);
      this.fill(pauseAfterError);
    }
  }

  #noteUse(image: string): void {
    this.#recent.used(image, performance.now());
    clearTimeout(this.#forgetting);
    this.#forgetting = setTimeout(() => this.fill(), recency).unref();
  }

  /** what to make next; hot prepared machines of an image that has changed meanwhile are of no more use */
  async #missing(): Promise<Missing | undefined> {
    const { size } = this.#options;
    const shares = size.hot > 0 ? await this.#shares() : [];
    await this.#discardOthers(shares);
    const { hot, warm } = this.#preparedMachines;
    const short = shares.filter(({ root, count }) => hot.filter(({ key }) => key === root.key).length < count);
    const usual = short.find(({ image }) => image === this.#options.image);
    if (!usual && warm.length < size.warm) return { kind: "warm" };
    const next = usual ?? short[0];
    if (!next) return undefined;
    this.#demands = this.#demands.filter(({ key }) => shares.some(({ root }) => root.key === key));
    const at = this.#demands.findIndex(({ key }) => key === next.root.key);
    const [demand] = at < 0 ? [] : this.#demands.splice(at, 1);
    return { kind: "hot", image: next.image, root: next.root, setup: demand?.setup };
  }

  /** the images that hot prepared machines should be booted from; the default one has what the others leave */
  async #shares(): Promise<Share[]> {
    const { image: usual, root: rootOf, size, logError } = this.#options;
    const others: Share[] = [];
    for (const [image, count] of this.#recent.wanted(performance.now())) {
      const root = await rootOf(image).catch((error: unknown) => void logError(error));
      if (root) others.push({ image, root, count });
      else this.#recent.forget(image);
    }
    const root = await rootOf(usual);
    const left = size.hot - others.reduce((sum, { count }) => sum + count, 0);
    return root ? [{ image: usual, root, count: left }, ...others] : others;
  }

  /** ends the hot prepared machines that are in no share */
  async #discardOthers(shares: Share[]): Promise<void> {
    const left = new Map(shares.map(({ root, count }) => [root.key, count]));
    const stale: Entry[] = [];
    this.#preparedMachines.hot = this.#preparedMachines.hot.filter((entry) => {
      const count = left.get(entry.key) ?? 0;
      left.set(entry.key, count - 1);
      if (count <= 0) stale.push(entry);
      return count > 0;
    });
    for (const { prepared } of stale) await this.#discard(prepared);
  }

  async #add({ kind, image, root, setup }: Missing): Promise<void> {
    const { maker, network, limits } = this.#options;
    this.#making = root?.reference;
    try {
      const prepared = await maker.prepare(network, limits, root);
      try {
        if (root) await maker.boot(prepared, root);
        if (root) await prepared.agent?.rehearse(root);
        await setUp(prepared, setup);
        const entry = { key: root?.key ?? "", reference: root?.reference, prepared };
        this.#preparedMachines[kind].push(entry);
        prepared.agent?.whenGone(() => this.#died(entry));
      } catch (error) {
        await this.#discard(prepared);
        throw error;
      }
    } catch (error) {
      // It must not keep the others from being made. Callers get the error, and two more uses try again.
      if (image !== undefined && image !== this.#options.image) this.#recent.forget(image);
      throw error;
    } finally {
      this.#making = undefined;
    }
  }

  /** discards one with another setup, if all of this root have one, to make room for what was wanted */
  #giveWay(key: string): void {
    const { hot } = this.#preparedMachines;
    const at = hot.findIndex((entry) => entry.key === key);
    const [entry] = at < 0 ? [] : hot.splice(at, 1);
    if (entry) this.#discard(entry.prepared).catch(this.#options.logError);
  }

  /** removes a prepared machine that has died while it waited */
  #died(entry: Entry): void {
    const at = this.#preparedMachines.hot.indexOf(entry);
    if (at < 0) return;
    this.#preparedMachines.hot.splice(at, 1);
    this.#discard(entry.prepared)
      .then(() => this.fill())
      .catch(this.#options.logError);
  }

  async #discard(prepared: PreparedMachine): Promise<void> {
    prepared.agent?.close();
    await this.#options.maker.discard(prepared.plan);
  }
}
