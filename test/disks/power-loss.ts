/**
 * A disk whose current state can be saved: the directory is on its own file system, on an image that is copied
 * instantly because it lies on btrfs. Data that is only in the kernel's memory is not in the copy, as after a loss of
 * power.
 */

import { execFile } from "node:child_process";
import { mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { tempDir, type Undo } from "../harness/harness.ts";
import { noteFolder } from "../runner/leftovers.ts";

const run = promisify(execFile);

export interface FragileDisk {
  /** a directory on the disk */
  directory: string;
  /** saves the current state of the disk */
  keep(): Promise<void>;
  /** unmounts the disk, which must not be in use, and brings back the last saved state */
  restore(): Promise<void>;
}

export async function fragileDisk(undo: Undo): Promise<FragileDisk> {
  const folder = await tempDir();
  noteFolder(undo, folder);
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
  // Without the page cache of the file system below, where unflushed writes would be visible.
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
      // The mounts of machines that have just ended take a moment to go away; and a launcher that another test has
      // started meanwhile may hold them in its own mount namespace.
      await run("umount", ["--lazy", directory]);
      await rm(disk);
      await rename(`${disk}.kept`, disk);
      await mount();
    },
  };
}
