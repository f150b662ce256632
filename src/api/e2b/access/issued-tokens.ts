/**
 * Access tokens that this daemon has given out. A signed URL carries only the signature, so checking it needs the
 * token. Tokens are not stored. After a restart of the daemon, a signed URL is valid again once a client has fetched
 * the sandbox or used its token.
 */

import { keepLast } from "../../../base/bounded-map.ts";

const mostSandboxes = 10_000;
/** most tokens of one sandbox; each key has its own */
const mostTokens = 16;
/** tokens that an address is tried with which names no sandbox: each costs a hash, before it is clear who asks */
const mostTried = 1000;

export class IssuedTokens {
  /** by sandbox */
  readonly #tokens = new Map<string, Map<string, true>>();

  add(sandboxId: string, token: string): void {
    const tokens = this.#tokens.get(sandboxId) ?? new Map<string, true>();
    // Move it to the end of the map, so that sandboxes in use are kept.
    this.#tokens.delete(sandboxId);
    this.#tokens.set(sandboxId, tokens.set(token, true));
    keepLast(tokens, mostTokens);
    keepLast(this.#tokens, mostSandboxes);
  }

  of(sandboxId: string): string[] {
    return [...(this.#tokens.get(sandboxId)?.keys() ?? [])];
  }

  /** the newest of all, for an address that names no sandbox */
  newest(): { sandboxId: string; token: string }[] {
    const newest = [...this.#tokens].slice(-mostTried).reverse();
    return newest
      .flatMap(([sandboxId, tokens]) => [...tokens.keys()].reverse().map((token) => ({ sandboxId, token })))
      .slice(0, mostTried);
  }

  /** of a sandbox that is gone */
  forget(sandboxId: string): void {
    this.#tokens.delete(sandboxId);
  }
}
