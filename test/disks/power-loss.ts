/**
 * A disk whose state of a moment can be kept: the directory is on a file system of its own, on an image that is copied in
 * no time because it lies on btrfs. What the kernel had in memory only is not in the copy, as after a loss of power.
 */

import { execFile } from "node:child_process";
import { mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { tempDir, type Undo } from "../harness/harness.ts";

const run = promisify(execFile);

export interface FragileDisk {
  /** on the disk */
  directory: string;
  /** keeps what is on the disk now */
  keep(): Promise<void>;
  /** takes the disk away, which must not be in use, and brings back what was kept last */
  restore(): Promise<void>;
}

export async function fragileDisk(undo: Undo): Promise<FragileDisk> {
  const folder = await tempDir();
  const shelf = join(folder, "shelf");
  const directory = join(folder, "disk");
  for (const path of [shelf, directory]) await mkdir(path);
  await run("truncate", ["-s", "12G", join(folder, "shelf.img")]);
  await run("mkfs.btrfs", ["-q", "--nodiscard", join(folder, "shelf.img")]);
  await run("mount", ["-o", "loop", join(folder, "shelf.img"), shelf]);
  undo.defer(async () => void (await run("umount", ["--lazy", shelf])));
  const disk = join(shelf, "disk.img");
  await run("truncate", ["-s", "8G", disk]);
  await run("mkfs.ext4", ["-q", "-E", "lazy_itable_init=1,lazy_journal_init=1", disk]);
  // Past the page cache of the shelf, where a write that nobody flushed would be seen.
  const mount = async () => {
    const { stdout } = await run("losetup", ["--find", "--show", "--direct-io=on", disk]);
    await run("mount", [stdout.trim(), directory]);
    await run("losetup", ["--detach", stdout.trim()]);
  };
  await mount();
  undo.defer(async () => void (await run("umount", ["--lazy", directory])));
  return {
    directory,
    keep: async () => void (await run("cp", ["--reflink=always", disk, `${disk}.kept`])),
    async restore() {
      // The mounts of machines that have just ended are taken apart behind them; and a launcher that another test has
      // started meanwhile may have them in its own view.
      await run("umount", ["--lazy", directory]);
      await rm(disk);
      await rename(`${disk}.kept`, disk);
      await mount();
    },
  };
}
