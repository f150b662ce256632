/**
 * The thread that unpacks one large layer, so that nothing else of the process waits for its bytes: they pass through a
 * heap of their own, whose garbage is collected in no time because nothing else is in it. It reads the layer's file, which
 * may still grow, and writes to a file session of its own. unpack-in-thread.ts starts it.
 */

import { read } from "node:fs";
import { promisify } from "node:util";
import { parentPort, workerData } from "node:worker_threads";
import { isSandkeepError, messageOf, SandkeepError } from "../../../core/model/errors.ts";
import { Type } from "../../../protocols/guest-frames.ts";
import { openFiles } from "../guest-wire/channel.ts";
import { errnoOf, withoutFolders } from "../guest-wire/failure.ts";
import { type LayerDigests, unpackTar } from "./layer-tar.ts";

/** The thread's task. */
export interface ThreadTask {
  /** the launcher's socket */
  socket: string;
  directory: string;
  /** an open file of this process, and where the layer begins in it */
  file: { fd: number; start: number };
  layer: LayerDigests;
  onto: boolean;
}

/** Told to the thread: how many bytes of the file are there, and whether these are all; or that no more will come. */
export type ToThread = { length: number; isWhole: boolean } | "over";

/** Told by the thread. `taken` are bytes, plain and packed, since the last message of this kind */
export type FromThread =
  | { type: "taken"; plain: number; packed: number }
  | { type: "done"; size: number; devices: number }
  | { type: "failed"; code: SandkeepError["code"] | undefined; message: string; errno: number | undefined };

/** bytes between two messages about them */
const reportEvery = 8 << 20;
const pieceLength = 1 << 20;
const readAt = promisify(read);

if (parentPort) await main(parentPort);

async function main(port: NonNullable<typeof parentPort>): Promise<void> {
  // Started by unpack-in-thread.ts alone.
  const { socket, directory, file, layer, onto } = workerData as ThreadTask;
  const tell = (message: FromThread) => port.postMessage(message);
  try {
    const files = await openFiles(socket, "the launcher", Type.filesAt, directory);
    try {
      const taken = { plain: 0, packed: 0 };
      const take = (kind: keyof typeof taken) => (count: number) => {
        taken[kind] += count;
        if (taken[kind] < reportEvery) return;
        tell({ type: "taken", ...taken });
        [taken.plain, taken.packed] = [0, 0];
      };
      const limits = { take: take("plain"), takePacked: take("packed") };
      const done = await unpackTar(files, layer, { source: growing(port, file), onto, limits });
      tell({ type: "taken", ...taken });
      tell({ type: "done", ...done });
    } finally {
      files.close();
    }
  } catch (error) {
    const shown = withoutFolders(error);
    const code = isSandkeepError(shown) ? shown.code : undefined;
    tell({ type: "failed", code, message: messageOf(shown), errno: errnoOf(error) });
  } finally {
    port.close();
  }
}

/** the file's bytes, as far as they are there, and then those that follow */
async function* growing(
  port: NonNullable<typeof parentPort>,
  { fd, start }: ThreadTask["file"],
): AsyncGenerator<Uint8Array> {
  let known: ToThread = { length: 0, isWhole: false };
  let wake = () => {};
  port.on("message", (message: ToThread) => {
    known = message;
    wake();
  });
  for (let at = 0; ; ) {
    // TypeScript does not see that the listener changes it.
    const now = known as ToThread;
    if (now === "over") throw new SandkeepError("unavailable", "Cannot go on with the layer: no more of it will come");
    if (at >= now.length && now.isWhole) return;
    if (at >= now.length) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
      continue;
    }
    const length = Math.min(pieceLength, now.length - at);
    const { bytesRead, buffer } = await readAt(fd, Buffer.allocUnsafe(length), 0, length, start + at);
    if (bytesRead === 0)
      throw new SandkeepError("invalid", "Cannot import the image: a layer changed while it was read");
    at += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}
