/** Counts the entries that a copy leaves out, in either direction, and tells its user. */

import { counted } from "../../base/counted.ts";

export class LeftOut {
  #count = 0;

  readonly add = (count = 1): void => {
    this.#count += count;
  };

  tell(warn: (line: string) => void): void {
    if (this.#count === 0) return;
    warn(`Left out ${counted(this.#count, "entry", "entries")}: only files, directories and links are copied`);
  }
}
