/** Links that sign a browser in once: the daemon prints one when it starts, and the command line can ask for more. */

import { randomBytes } from "node:crypto";
import { keepLast } from "../../base/bounded-map.ts";
import { SandkeepError } from "../../core/model/errors.ts";
import type { Caller } from "../../core/model/sandbox.ts";

/** most links that are open at the same time; the oldest give way */
const mostLinks = 1000;

export class OneTimeLinks {
  readonly #clock: () => number;
  readonly #open = new Map<string, { caller: Caller; expiresAt: number }>();

  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /** a code of 128 bits that is valid once, for `lifetime` ms */
  make(caller: Caller, lifetime: number): { code: string; expiresAt: number } {
    const code = randomBytes(16).toString("hex");
    const expiresAt = this.#clock() + lifetime;
    this.#open.set(code, { caller, expiresAt });
    keepLast(this.#open, mostLinks);
    return { code, expiresAt };
  }

  /** whom a valid link signs in; the link stays valid */
  peek(code: string): Caller | undefined {
    const link = this.#open.get(code);
    return link && link.expiresAt > this.#clock() ? link.caller : undefined;
  }

  redeem(code: string): Caller {
    const caller = this.peek(code);
    this.#open.delete(code);
    if (caller) return caller;
    throw new SandkeepError("unauthenticated", "Cannot sign in: the link was used before, or has expired");
  }
}
