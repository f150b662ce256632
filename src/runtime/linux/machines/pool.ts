/**
 * The pool: blanks made in advance. `hot` ones are booted from the default image, `warm` ones wait for any root. It is
 * refilled one blank at a time, and only while nothing is being booted, so that filling does not slow a caller down.
 */

import type { Limits, NetworkMode } from "../../../core/ports/runtime.ts";
import type { Blank, BlankMaker, Root } from "./blank.ts";

export interface PoolSize {
  hot: number;
  warm: number;
}

export interface PoolOptions {
  size: PoolSize;
  maker: BlankMaker;
  network: NetworkMode;
  limits: Limits;
  /** what hot blanks are booted from; undefined when there is no such image yet */
  root: () => Promise<HotRoot | undefined>;
  /** told of what went wrong in the background */
  trouble: (error: unknown) => void;
}

/** A root with its name, and as whom and where its commands usually start. */
interface HotRoot extends Root {
  key: string;
  user: string;
  cwd: string;
}

type Kind = keyof PoolSize;

interface Entry {
  /** of the root it is booted from; empty for a warm one */
  key: string;
  blank: Blank;
}

/** how long nothing must have happened before the pool fills, in ms */
const quiet = 20;
const pauseAfterTrouble = 5000;

export class Pool {
  readonly #options: PoolOptions;
  readonly #blanks: Record<Kind, Entry[]> = { hot: [], warm: [] };
  #filling: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #busy = 0;
  #closed = false;

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  /** a booted blank made for exactly this root, if there is one */
  takeHot(key: string): Blank | undefined {
    for (;;) {
      const at = this.#blanks.hot.findIndex((entry) => entry.key === key);
      const [entry] = at < 0 ? [] : this.#blanks.hot.splice(at, 1);
      if (!entry || this.#options.maker.lives(entry.blank)) return entry?.blank;
      // it has just died, and we had not heard of it
      this.#discard(entry.blank).catch(this.#options.trouble);
    }
  }

  takeWarm(): Blank | undefined {
    return this.#blanks.warm.shift()?.blank;
  }

  /** a caller is at work: filling waits until the returned function is called */
  begin(): () => void {
    this.#busy++;
    clearTimeout(this.#timer);
    return () => {
      this.#busy--;
      this.fill();
    };
  }

  /** begins to fill in a moment, if something is missing */
  fill(after = quiet): void {
    if (this.#closed || this.#busy > 0) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#filling ??= this.#fillUp().finally(() => {
        this.#filling = undefined;
      });
    }, after);
    this.#timer.unref();
  }

  /** resolves when nothing is missing, or when filling it failed */
  async full(): Promise<void> {
    clearTimeout(this.#timer);
    this.#filling ??= this.#fillUp().finally(() => {
      this.#filling = undefined;
    });
    await this.#filling;
  }

  /** the launcher died, and blanks without a root with it */
  orphaned(): void {
    const dead = this.#blanks.warm.splice(0);
    void Promise.all(dead.map(({ blank }) => this.#discard(blank))).catch(this.#options.trouble);
  }

  /** how many wait */
  get size(): PoolSize {
    return { hot: this.#blanks.hot.length, warm: this.#blanks.warm.length };
  }

  /** whether a caller is at work */
  get isBusy(): boolean {
    return this.#busy > 0;
  }

  /** ends all blanks, and makes no others */
  async close(): Promise<void> {
    this.#closed = true;
    await this.empty();
  }

  /** ends all blanks */
  async empty(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#filling;
    const all = [...this.#blanks.hot.splice(0), ...this.#blanks.warm.splice(0)];
    await Promise.all(all.map(({ blank }) => this.#discard(blank)));
  }

  async #fillUp(): Promise<void> {
    try {
      while (!this.#closed && this.#busy === 0) {
        const kind = await this.#missing();
        if (kind === undefined) return;
        await this.#add(kind);
      }
    } catch (error) {
      this.#options.trouble(error);
      this.fill(pauseAfterTrouble);
    }
  }

  /** what to make next; hot blanks of an image that has changed meanwhile are of no more use */
  async #missing(): Promise<Kind | undefined> {
    const { size } = this.#options;
    const key = size.hot > 0 ? (await this.#options.root())?.key : undefined;
    const stale = this.#blanks.hot.filter((entry) => entry.key !== key);
    this.#blanks.hot = this.#blanks.hot.filter((entry) => entry.key === key);
    for (const { blank } of stale) await this.#discard(blank);
    if (key !== undefined && this.#blanks.hot.length < size.hot) return "hot";
    return this.#blanks.warm.length < size.warm ? "warm" : undefined;
  }

  async #add(kind: Kind): Promise<void> {
    const { maker, network, limits } = this.#options;
    const root = kind === "hot" ? await this.#options.root() : undefined;
    const blank = await maker.prepare(network, limits, root);
    try {
      if (root) await maker.boot(blank, root);
      if (root) await blank.agent?.rehearse(root);
      const entry = { key: root?.key ?? "", blank };
      this.#blanks[kind].push(entry);
      blank.agent?.whenGone(() => this.#died(entry));
    } catch (error) {
      await this.#discard(blank);
      throw error;
    }
  }

  /** a blank that ends while it waits is of no use to anybody */
  #died(entry: Entry): void {
    const at = this.#blanks.hot.indexOf(entry);
    if (at < 0) return;
    this.#blanks.hot.splice(at, 1);
    this.#discard(entry.blank)
      .then(() => this.fill())
      .catch(this.#options.trouble);
  }

  async #discard(blank: Blank): Promise<void> {
    blank.agent?.close();
    await this.#options.maker.discard(blank.plan);
  }
}
