/** Reads an image that is not mounted: the combined content of its layers at a path. Does not follow symlinks. */

import { isSandkeepError } from "../../../core/model/errors.ts";
import type { Entry } from "../files/file-entry.ts";
import type { FileSession } from "../files/file-session.ts";
import type { LayerStore } from "../layers/layers.ts";

export class ImageView {
  readonly #layers: LayerStore;
  /** topmost first */
  readonly #ids: string[];
  readonly #sessions = new Map<string, Promise<FileSession>>();

  constructor(layers: LayerStore, ids: string[]) {
    this.#layers = layers;
    this.#ids = ids;
  }

  async close(): Promise<void> {
    for (const session of this.#sessions.values()) await session.then((open) => open.close()).catch(() => undefined);
  }

  async find(path: string): Promise<Entry | undefined> {
    return (await this.#look(path))?.entry;
  }

  async exists(...paths: string[]): Promise<boolean> {
    for (const path of paths) if (await this.find(path)) return true;
    return false;
  }

  /** a small text file; undefined if it is missing, not a regular file, or large */
  async text(path: string): Promise<string | undefined> {
    const found = await this.#look(path);
    if (found?.entry.type !== "file" || found.entry.size > largestText) return undefined;
    const chunks: Buffer[] = [];
    for await (const chunk of (await this.#session(found.layer)).read(path, { length: largestText }))
      chunks.push(chunk);
    return Buffer.concat(chunks).toString();
  }

  async #look(path: string): Promise<{ entry: Entry; layer: string } | undefined> {
    for (const layer of this.#ids) {
      const found = await this.#lookIn(layer, path);
      if (found === "hidden") return undefined;
      if (found) return { entry: found, layer };
    }
    return undefined;
  }

  /** undefined if the layers below decide, "hidden" if they must not be read */
  async #lookIn(layer: string, path: string): Promise<Entry | "hidden" | undefined> {
    const parts = path.split("/").filter((part) => part !== "");
    let opaque = false;
    for (let count = 1; count <= parts.length; count++) {
      const prefix = `/${parts.slice(0, count).join("/")}`;
      const entry = await this.#stat(layer, prefix);
      if (!entry) return opaque ? "hidden" : undefined;
      if (entry.type === "character-device") return "hidden";
      if (count === parts.length) return entry;
      if (entry.type !== "directory") return "hidden";
      opaque ||= await this.#isOpaque(layer, prefix);
    }
    return undefined;
  }

  async #stat(layer: string, path: string): Promise<Entry | undefined> {
    try {
      return await (await this.#session(layer)).stat(path, { follow: false });
    } catch (error) {
      if (isSandkeepError(error, "not-found")) return undefined;
      throw error;
    }
  }

  /** in a session of its own, because a session is unusable after a walk that ended early */
  async #isOpaque(layer: string, path: string): Promise<boolean> {
    const files = await this.#layers.filesAt(layer);
    try {
      for await (const { entry } of files.walk(path, { attributes: true })) {
        return entry.attributes.some(({ name, value }) => name === "trusted.overlay.opaque" && value[0] === 0x79);
      }
      return false;
    } finally {
      files.close();
    }
  }

  #session(layer: string): Promise<FileSession> {
    const open = this.#sessions.get(layer) ?? this.#layers.filesAt(layer);
    this.#sessions.set(layer, open);
    return open;
  }
}

const largestText = 1 << 20;
