/** Starts a thread that unpacks one large layer, keeps to the limits of the image meanwhile, and ends with it. */

import { Worker } from "node:worker_threads";
import { siblingProgram } from "../../../base/files/sibling-program.ts";
import { SandkeepError } from "../../../core/model/errors.ts";
import { kernelError } from "../guest-wire/failure.ts";
import type { LayerFile } from "./content.ts";
import type { TarLimits, UnpackedTar } from "./layer-tar.ts";
import type { FromThread, ThreadTask, ToThread } from "./layer-thread.ts";

const program = siblingProgram(import.meta, "layer-thread");

/** resolves when the layer is unpacked and has its digests; the error of a file that does not come is passed on */
export async function unpackInThread(
  task: Omit<ThreadTask, "file">,
  file: LayerFile,
  limits: TarLimits,
): Promise<UnpackedTar> {
  const { fd, start } = file;
  const workerData: ThreadTask = { ...task, file: { fd, start } };
  const thread = new Worker(program, { workerData, resourceLimits: { maxYoungGenerationSizeMb: 8 } });
  const ended = new Promise<void>((resolve) => thread.once("exit", () => resolve()));
  const left = new AbortController();
  let failure: unknown;
  const tell = (message: ToThread) => thread.postMessage(message);
  void follow(file, tell, left.signal).catch((error) => {
    failure = error;
    tell("over");
  });
  try {
    return await new Promise((resolve, reject) => {
      thread.on("message", (message: FromThread) => {
        try {
          if (message.type === "done") resolve({ size: message.size, devices: message.devices });
          if (message.type === "failed") reject(failure ?? errorOf(message));
          if (message.type !== "taken") return;
          limits.take(message.plain);
          limits.takePacked(message.packed);
        } catch (error) {
          reject(error);
        }
      });
      thread.once("error", reject);
      thread.once("exit", () => reject(new SandkeepError("internal", "Cannot unpack the layer: its thread ended")));
    });
  } finally {
    left.abort();
    await thread.terminate();
    await ended;
  }
}

/** tells how far the file has grown, until it is whole */
async function follow(file: LayerFile, tell: (message: ToThread) => void, signal: AbortSignal): Promise<void> {
  for await (const state of file.growth(signal)) tell(state);
}

function errorOf({ code, message, errno }: Extract<FromThread, { type: "failed" }>): Error {
  if (code === undefined) return new Error(message);
  return new SandkeepError(code, message, errno === undefined ? {} : { cause: kernelError(errno) });
}
