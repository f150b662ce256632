/** Browser sessions that ended because their people signed out, also over a restart of the daemon. */

import { keepLast } from "../../../base/bounded-map.ts";
import type { LineFiles } from "../../../core/ports/line-files.ts";

const file = "sign-outs";
/** most that are remembered */
const most = 10_000;

export class SignOuts {
  readonly #files: LineFiles | undefined;
  /** when their cookies expire, in ms since 1970, by their nonces */
  readonly #ended = new Map<string, number>();

  /** without files they are forgotten at the end of the process */
  constructor(files?: LineFiles, now = 0) {
    this.#files = files;
    for (const line of files?.read(file) ?? []) {
      const [, until, nonce] = /^(\d{1,16}) ([\w-]{1,64})$/.exec(line) ?? [];
      if (nonce !== undefined && Number(until) > now) this.#ended.set(nonce, Number(until));
    }
    keepLast(this.#ended, most);
  }

  /** it is on record when this returns */
  add(nonce: string, until: number): void {
    this.#ended.set(nonce, until);
    keepLast(this.#ended, most);
    this.#files?.appendNow(file, `${until} ${nonce}\n`);
  }

  has(nonce: string): boolean {
    return this.#ended.has(nonce);
  }
}
