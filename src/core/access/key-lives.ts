/** How long keys are good for: a signal for each, which aborts when the key is deleted or expires. */

import type { ApiKey } from "../ports/store.ts";

interface Life {
  controller: AbortController;
  timer?: NodeJS.Timeout;
}

/** the longest that a timer of Node's can wait, in ms */
const longestTimer = 2 ** 31 - 1;

export class KeyLives {
  readonly #now: () => number;
  /** of keys that were used since the daemon started, by id */
  readonly #lives = new Map<string, Life>();

  constructor(now: () => number) {
    this.#now = now;
  }

  of({ id, expiresAt }: Pick<ApiKey, "id" | "expiresAt">): AbortSignal {
    const known = this.#lives.get(id);
    if (known) return known.controller.signal;
    const life: Life = { controller: new AbortController() };
    this.#lives.set(id, life);
    if (expiresAt !== undefined) this.#await(id, life, expiresAt);
    return life.controller.signal;
  }

  /** the key was deleted */
  end(id: string): void {
    const life = this.#lives.get(id);
    clearTimeout(life?.timer);
    this.#lives.delete(id);
    life?.controller.abort();
  }

  #await(id: string, life: Life, expiresAt: number): void {
    const left = expiresAt - this.#now();
    if (left <= 0) {
      life.controller.abort();
      return;
    }
    life.timer = setTimeout(() => this.#await(id, life, expiresAt), Math.min(left, longestTimer));
    life.timer.unref();
  }
}
