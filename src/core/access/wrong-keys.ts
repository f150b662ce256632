/**
 * Counts wrong keys by the address that they come from, so that nobody can try many. Only different ones count: a program
 * with a stale key asks with the same one again and again, and must not lock out others at its address. For the same
 * reason a key that was right from an address goes on working there while others are refused.
 */

import { SandkeepError } from "../model/errors.ts";

/** different wrong keys of an address, and within which time, in ms */
const most = 30;
const window = 60_000;
/** addresses that are remembered; those that came first give way */
const mostAddresses = 10_000;

export class WrongKeys {
  readonly #now: () => number;
  /** when each was tried, by address and hash, the oldest first */
  readonly #tried = new Map<string, Map<string, number>>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** refuses to look at one more key from an address that has tried too many */
  check(address: string, hash: string): void {
    const tried = this.#tried.get(address);
    if (!tried || tried.has(hash)) return;
    const now = this.#now();
    for (const [old, at] of tried) if (at <= now - window) tried.delete(old);
    if (tried.size < most) return;
    const [oldest = now] = tried.values();
    const retryAfter = Math.max(1, Math.ceil((oldest + window - now) / 1000));
    throw new SandkeepError("limit", `Cannot authenticate: too many wrong keys came from "${address}"`, { retryAfter });
  }

  add(address: string, hash: string): void {
    const tried = this.#tried.get(address) ?? new Map<string, number>();
    tried.delete(hash);
    tried.set(hash, this.#now());
    this.#tried.set(address, tried);
    const [first] = this.#tried.keys();
    if (this.#tried.size > mostAddresses && first !== undefined) this.#tried.delete(first);
  }
}
