/** `sandkeep image pull`: pulls from a registry, with a progress bar on a terminal and lines elsewhere. */

import { sizeInWords } from "../../base/size-in-words.ts";
import type { ImageRecord } from "../../runtime/linux/images/images.ts";
import type { ImageStores, ImportOptions } from "../../runtime/linux/oci/import.ts";
import type { RegistrySettings } from "../../runtime/linux/registry/client.ts";
import type { Credentials } from "../../runtime/linux/registry/credentials.ts";
import { pullImage } from "../../runtime/linux/registry/pull.ts";
import { parseReference } from "../../runtime/linux/registry/reference.ts";
import { progressOf } from "../print/meter.ts";

/** The registries to pull from, and functions that show progress. */
export interface PullContext {
  registries(): { settings: RegistrySettings; credentials: Pick<Credentials, "find"> };
  progress(line: string): void;
  /** replaces the line before; undefined if there is no terminal */
  redraw?: ((line: string) => void) | undefined;
}

export async function pull(
  stores: ImageStores,
  context: PullContext,
  name: string,
  options: Pick<ImportOptions, "name" | "owner" | "node">,
): Promise<{ image: ImageRecord; isNew: boolean }> {
  const reference = parseReference(name);
  const meter = new Meter(context);
  try {
    return await pullImage(stores, reference, {
      ...options,
      ...context.registries(),
      // A user of this command may name any registry.
      isTrusted: true,
      progress: (line) => meter.say(line),
      received: (bytes, of) => meter.received(bytes, of),
    });
  } finally {
    meter.close();
  }
}

/** Progress of a pull: a bar on a terminal, elsewhere a line at each tenth. */
class Meter {
  readonly #context: PullContext;
  #tenth = 0;
  #drawnAt = 0;
  #isDrawn = false;

  constructor(context: PullContext) {
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
