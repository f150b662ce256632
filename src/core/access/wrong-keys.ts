/**
 * Counts wrong keys by client address, so that no client can try many. Only distinct keys count: a program with a stale
 * key sends the same one again and again, and must not lock out others at its address. For the same reason, a key that
 * has worked from an address goes on working there.
 */

import { SandkeepError } from "../model/errors.ts";

/** most distinct wrong keys of an address within `window` ms */
const most = 30;
const window = 60_000;
/** most addresses remembered; the oldest give way */
const mostAddresses = 10_000;

export class WrongKeys {
  readonly #now: () => number;
  /** when each key was tried, by address and hash, oldest first */
  readonly #tried = new Map<string, Map<string, number>>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** throws if the address has tried too many wrong keys */
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
