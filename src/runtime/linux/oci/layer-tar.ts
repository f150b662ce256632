/** Unpacks the tar of one layer through a file session, and checks it against its digests on the way. */

import { createHash } from "node:crypto";
import { decompressed } from "../files/decompress.ts";
import type { FileSession } from "../files/file-session.ts";
import { extractTar } from "../files/tar-extract.ts";
import type { ContentLayer } from "./content.ts";
import { refusal } from "./refusal.ts";

/** what is known of a layer before it is read */
export type LayerDigests = Pick<ContentLayer, "name" | "diffId" | "digest" | "packedSize" | "isChecked">;

export interface TarLimits {
  /** called with the number of plain bytes that are about to be used; throws if they are too many */
  take(count: number): void;
  /** the same for the bytes of the compressed file */
  takePacked(count: number): void;
}

export interface UnpackedTar {
  /** bytes of the plain tar */
  size: number;
  /** entries below /dev, which are left out because every sandbox has its own */
  devices: number;
}

/** most files and directories of one layer */
export const mostMembers = 4_000_000;

/** `onto`: the directory holds the layers below already, so whiteouts delete their files */
export async function unpackTar(
  files: FileSession,
  layer: LayerDigests,
  { source, onto, limits }: { source: AsyncIterable<Uint8Array>; onto: boolean; limits: TarLimits },
): Promise<UnpackedTar> {
  const { tar, check } = checkedTar(layer, source, limits);
  const devices = new Devices();
  const { leaveOut } = devices;
  const takeHoles = (count: number) => limits.take(count);
  await extractTar(files, "/", tar, { layer: true, oci: true, isPlain: true, onto, leaveOut, mostMembers, takeHoles });
  return { size: check(), devices: devices.count };
}

/** only sees that it can be had, and is what its digests say */
export async function readLayer(
  layer: LayerDigests,
  source: AsyncIterable<Uint8Array>,
  limits: TarLimits,
): Promise<void> {
  const { tar, check } = checkedTar(layer, source, limits);
  for await (const _ of tar);
  check();
}

/** the plain tar of a layer; `check` refuses it once it has been read, or says how long it is */
function checkedTar(layer: LayerDigests, source: AsyncIterable<Uint8Array>, limits: TarLimits) {
  const packed = layer.isChecked ? undefined : new Counted(limits.takePacked, layer.packedSize);
  const plain = new Counted(limits.take);
  const check = () => {
    const isPackedWrong = packed && layer.digest !== undefined && packed.digest() !== layer.digest;
    if (plain.digest() !== layer.diffId || isPackedWrong)
      throw refusal(`layer "${layer.name}" is not what its digest says`);
    return plain.length;
  };
  return { tar: plain.through(decompressed(packed ? packed.through(source) : source)), check };
}

/** A stream whose bytes are counted and digested on their way. */
export class Counted {
  readonly #hash = createHash("sha256");
  readonly #take: (count: number) => void;
  /** exact number of bytes to expect */
  readonly #wanted: number | undefined;
  #digest: string | undefined;
  length = 0;

  constructor(take: (count: number) => void, wanted?: number) {
    this.#take = take;
    this.#wanted = wanted;
  }

  async *through(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of source) {
      this.length += chunk.length;
      this.#take(chunk.length);
      if (this.#wanted !== undefined && this.length > this.#wanted) throw this.#wrongSize();
      this.#hash.update(chunk);
      yield chunk;
    }
    if (this.#wanted !== undefined && this.length !== this.#wanted) throw this.#wrongSize();
  }

  /** valid after the stream has ended */
  digest(): string {
    this.#digest ??= this.#hash.digest("hex");
    return this.#digest;
  }

  #wrongSize() {
    return refusal(`a layer does not have the ${this.#wanted} bytes that its manifest says`);
  }
}

/** An image's files below /dev: left out, because every sandbox has its own /dev. */
export class Devices {
  count = 0;

  readonly leaveOut = (path: string): boolean => {
    if (!path.startsWith("dev/")) return false;
    this.count++;
    return true;
  };
}
