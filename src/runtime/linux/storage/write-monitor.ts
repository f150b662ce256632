/**
 * Tells whether the kernel has lost data of the store: data that it had accepted from programs, and then could not write
 * to the disk. The kernel counts such errors for each file system, and shows the count in two ways. fsync and syncfs
 * first write everything that waits. An overlay that is mounted with "volatile" never writes: its fsync only compares the
 * count with that of the moment when the overlay was mounted. So a check takes microseconds, whatever waits in memory.
 *
 *   <store>/monitor/{lower,upper,work}/   directories of the overlay, always empty
 *   <store>/monitor/mount/                the overlay
 *
 * The overlay is mounted as long as the store is. It belongs to no process, so it also counts while no daemon runs, and
 * it reports a loss to every daemon until the store is mounted anew.
 */

import { execFile } from "node:child_process";
import { closeSync, fsyncSync, openSync, rmSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { makeFolderSync } from "../../../base/files/folders.ts";
import { messageOf } from "../../../core/model/errors.ts";
import { isOfDisk } from "../guest-wire/failure.ts";

const run = promisify(execFile);

export interface WriteMonitorOptions {
  store: string;
  /** whether the overlay is mounted */
  isMounted: (path: string) => boolean;
  /** whether nothing has used the store since it was mounted: then errors of its file system are not the store's */
  isUnused: boolean;
}

export class WriteMonitor {
  /** the open root of the overlay; undefined if the kernel refused to mount it because of a loss, or after close() */
  #overlay: number | undefined;
  #hasLost: boolean;

  /** rejects where this kernel or a full store allows no overlay */
  static async open({ store, isMounted, isUnused }: WriteMonitorOptions): Promise<WriteMonitor> {
    const path = monitorPoint(store);
    if (isMounted(path)) return new WriteMonitor(openSync(path, "r"));
    // Errors that were reported once do not keep an overlay from being mounted.
    if (isUnused) await run("sync", ["--file-system", store]).catch(() => undefined);
    try {
      await mountOverlay(store);
    } catch (error) {
      if (unreported.test(messageOf(error))) return new WriteMonitor(undefined);
      throw error;
    }
    return new WriteMonitor(openSync(path, "r"));
  }

  private constructor(overlay: number | undefined) {
    this.#overlay = overlay;
    this.#hasLost = overlay === undefined;
  }

  /** whether data was lost since the store was mounted; everything that the kernel has tried to write so far counts */
  hasLost(): boolean {
    if (this.#hasLost || this.#overlay === undefined) return this.#hasLost;
    try {
      fsyncSync(this.#overlay);
    } catch (error) {
      if (!isOfDisk(error)) throw error;
      this.#hasLost = true;
    }
    return this.#hasLost;
  }

  /** lets the overlay be unmounted */
  close(): void {
    if (this.#overlay !== undefined) closeSync(this.#overlay);
    this.#overlay = undefined;
  }
}

/** what mount says, depending on its version, when the kernel has lost data and no program has heard of it */
const unreported = /can't read superblock|Input\/output error|unseen error/;

/** where the overlay of a store is mounted */
export function monitorPoint(store: string): string {
  return join(store, "monitor", "mount");
}

async function mountOverlay(store: string): Promise<void> {
  const folder = join(store, "monitor");
  // The kernel refuses the work directory of a volatile overlay that was mounted before.
  rmSync(join(folder, "work", "work"), { recursive: true, force: true });
  for (const name of ["lower", "upper", "work", "mount"]) makeFolderSync(join(folder, name), 0o700);
  // Relative names: in a path, commas and colons would mean something to the kernel.
  const options = "volatile,lowerdir=lower,upperdir=upper,workdir=work";
  const env = { ...process.env, LC_ALL: "C" };
  await run("mount", ["-t", "overlay", "-o", options, "sandkeep-monitor", "mount"], { cwd: folder, env });
}
