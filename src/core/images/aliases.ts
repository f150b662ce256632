/** Further names of the host's images, which every team may use and an operator changes. */

import { OrderedWork } from "../../base/concurrency/ordered-work.ts";
import type { Context } from "../context.ts";
import { SandkeepError } from "../model/errors.ts";
import type { Caller } from "../model/sandbox.ts";
import { requireAdmin } from "../model/scope.ts";

export interface ImageAlias {
  /** the name, in which `*` stands for any text */
  pattern: string;
  image: string;
  /** whether the daemon's settings have it, so that only they change it */
  isSetting: boolean;
}

export class ImageAliases {
  readonly #context: Pick<Context, "runtime" | "imageAliases">;
  readonly #changes = new OrderedWork();

  constructor(context: Pick<Context, "runtime" | "imageAliases">) {
    this.#context = context;
  }

  /** all of them, by their patterns; one that was set goes before one of the settings */
  async list(_: Caller): Promise<ImageAlias[]> {
    const { runtime, imageAliases = {} } = this.#context;
    const set = (await runtime.images.aliases?.()) ?? {};
    return Object.entries({ ...imageAliases, ...set })
      .map(([pattern, image]) => ({ pattern, image, isSetting: !Object.hasOwn(set, pattern) }))
      .sort((one, other) => (one.pattern < other.pattern ? -1 : 1));
  }

  async set(caller: Caller, pattern: string, image: string): Promise<ImageAlias> {
    requireAdmin(caller, "an alias of an image");
    await this.#changes.run("aliases", () => this.#context.runtime.images.setAlias(pattern, image));
    return { pattern, image, isSetting: false };
  }

  async delete(caller: Caller, pattern: string): Promise<void> {
    requireAdmin(caller, "deleting an alias of an image");
    const { runtime, imageAliases = {} } = this.#context;
    await this.#changes.run("aliases", async () => {
      const isSet = Object.hasOwn((await runtime.images.aliases?.()) ?? {}, pattern);
      if (!isSet && Object.hasOwn(imageAliases, pattern)) {
        const why = "it is one of the daemon's settings (SANDKEEP_IMAGE_ALIASES)";
        throw new SandkeepError("conflict", `Cannot delete the alias "${pattern}": ${why}`);
      }
      await runtime.images.deleteAlias(pattern);
    });
  }
}
