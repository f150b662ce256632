/**
 * Access tokens that this daemon has given out. An address that was signed with one carries the signature alone, so that
 * the token has to be known to check it. Tokens are not stored: after a restart of the daemon a signed address counts again
 * once the sandbox was asked for, or its token used.
 */

import { keepLast } from "../../base/bounded-map.ts";

const mostSandboxes = 10_000;
/** of one sandbox: each key has its own */
const mostTokens = 16;

export class IssuedTokens {
  /** by sandbox */
  readonly #tokens = new Map<string, Map<string, true>>();

  add(sandboxId: string, token: string): void {
    const tokens = this.#tokens.get(sandboxId) ?? new Map<string, true>();
    // Last in its map again: what is in use stays.
    this.#tokens.delete(sandboxId);
    this.#tokens.set(sandboxId, tokens.set(token, true));
    keepLast(tokens, mostTokens);
    keepLast(this.#tokens, mostSandboxes);
  }

  of(sandboxId: string): string[] {
    return [...(this.#tokens.get(sandboxId)?.keys() ?? [])];
  }

  *all(): Generator<{ sandboxId: string; token: string }> {
    for (const [sandboxId, tokens] of this.#tokens) for (const token of tokens.keys()) yield { sandboxId, token };
  }
}
