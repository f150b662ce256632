/**
 * Claims on layers that no record names yet. A layer that is being imported, flattened or captured must not be
 * collected before its image or snapshot is recorded. A claim is a file, because the command line builds images beside
 * the daemon; it counts as long as the process that made it lives.
 */

import { rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { fewRandomBytes } from "../../../base/random-bytes.ts";
import { startTick } from "../host/kernel-file.ts";
import { jsonNames, makePrivate, readJson, writeJson } from "../storage/json-file.ts";

export interface Claim {
  /** call this before publishing the layer or checking whether it exists */
  add(layerId: string): Promise<void>;
  /** call this when a record names the layers, or they are not needed */
  release(): Promise<void>;
}

export class Claims {
  readonly #folder: string;
  readonly #held = new Map<object, Set<string>>();

  constructor(folder: string) {
    this.#folder = folder;
  }

  async open(): Promise<void> {
    await makePrivate(this.#folder);
  }

  /** a claim that every process that uses the store respects */
  async claim(): Promise<Claim> {
    const path = join(this.#folder, `${processTag()}.json`);
    const layers: string[] = [];
    return {
      add: async (id) => {
        layers.push(id);
        await writeJson(path, { layers }, { durable: false });
      },
      release: () => rm(path, { force: true }),
    };
  }

  /** a claim known to this process only, at no cost: for the one process that also collects */
  hold(): Claim {
    const key = {};
    const layers = new Set<string>();
    this.#held.set(key, layers);
    return {
      add: async (id) => void layers.add(id),
      release: async () => void this.#held.delete(key),
    };
  }

  async claimed(): Promise<Set<string>> {
    const all = new Set([...this.#held.values()].flatMap((layers) => [...layers]));
    for (const name of await jsonNames(this.#folder)) {
      const path = join(this.#folder, `${name}.json`);
      if (!isTagAlive(name)) await rm(path, { force: true });
      for (const id of (await readJson(path, claimFile))?.layers ?? []) all.add(id);
    }
    return all;
  }
}

const claimFile = z.object({ layers: z.array(z.string()) });

/** when this process began; it is read once */
let ownTick: string | undefined;

/** a name that identifies the process that made something: its pid, its start tick, and random bytes */
export function processTag(random = 6): string {
  ownTick ??= startTick(process.pid);
  return `${process.pid}-${ownTick ?? 0}-${fewRandomBytes(random).toString("hex")}`;
}

/** whether the process of a tag still runs; a pid alone may belong to another process by now */
export function isTagAlive(tag: string): boolean {
  const [pid = "", tick = ""] = tag.split("-");
  return startTick(Number(pid)) === tick;
}
