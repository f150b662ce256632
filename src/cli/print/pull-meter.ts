/** Progress of a pull from a registry: a bar on a terminal, elsewhere a line at each tenth. */

import { sizeInWords } from "../../base/size-in-words.ts";
import { progressOf } from "./meter.ts";

/** Where it is shown. */
export interface PullScreen {
  progress(line: string): void;
  /** replaces the line before; undefined if there is no terminal */
  redraw?: ((line: string) => void) | undefined;
}

export class PullMeter {
  readonly #context: PullScreen;
  #tenth = 0;
  #drawnAt = 0;
  #isDrawn = false;

  constructor(context: PullScreen) {
    this.#context = context;
  }

  say(line: string): void {
    this.close();
    this.#context.progress(line);
  }

  received(bytes: number, of: number, now = Date.now()): void {
    const { redraw, progress } = this.#context;
    if (redraw) {
      if (bytes < of && now - this.#drawnAt < 100) return;
      this.#drawnAt = now;
      this.#isDrawn = true;
      redraw(progressOf(bytes, of));
      return;
    }
    const tenth = of === 0 ? 10 : Math.floor((bytes * 10) / of);
    if (tenth <= this.#tenth) return;
    this.#tenth = tenth;
    progress(`${tenth * 10} % of ${sizeInWords(of)}`);
  }

  close(): void {
    if (this.#isDrawn) this.#context.redraw?.("");
    this.#isDrawn = false;
  }
}
