/** How long keys stay valid: each has a signal that aborts when the key is deleted or expires. */

import type { ApiKey } from "../ports/store.ts";

interface KeyLifetime {
  controller: AbortController;
  timer?: NodeJS.Timeout;
}

/** longest delay of a Node timer, in ms */
const longestTimer = 2 ** 31 - 1;

export class KeyLifetimes {
  readonly #now: () => number;
  /** of keys used since the daemon started, by id */
  readonly #lifetimes = new Map<string, KeyLifetime>();

  constructor(now: () => number) {
    this.#now = now;
  }

  of({ id, expiresAt }: Pick<ApiKey, "id" | "expiresAt">): AbortSignal {
    const known = this.#lifetimes.get(id);
    if (known) return known.controller.signal;
    const life: KeyLifetime = { controller: new AbortController() };
    this.#lifetimes.set(id, life);
    if (expiresAt !== undefined) this.#await(id, life, expiresAt);
    return life.controller.signal;
  }

  /** call when the key was deleted */
  end(id: string): void {
    const life = this.#lifetimes.get(id);
    clearTimeout(life?.timer);
    this.#lifetimes.delete(id);
    life?.controller.abort();
  }

  #await(id: string, life: KeyLifetime, expiresAt: number): void {
    const left = expiresAt - this.#now();
    if (left <= 0) {
      life.controller.abort();
      return;
    }
    life.timer = setTimeout(() => this.#await(id, life, expiresAt), Math.min(left, longestTimer));
    life.timer.unref();
  }
}
