/** A small disk for a data directory, a file system of its own on a loop device, that a test fills and empties. */

import { execFileSync } from "node:child_process";
import { closeSync, ftruncateSync, mkdirSync, openSync, rmSync, statfsSync } from "node:fs";
import { join } from "node:path";
import { tempDir, type Undo } from "../harness/harness.ts";
import { noteFolder } from "../runner/leftovers.ts";

export interface SmallDisk {
  directory: string;
  /** bytes free for any user */
  free(): number;
  /** takes room until this many bytes are left, at once */
  fill(left: number): void;
  /** frees everything that fill() took */
  empty(): void;
}

export async function smallDisk(undo: Undo, size: number): Promise<SmallDisk> {
  const folder = await tempDir(undo);
  noteFolder(undo, folder);
  const [image, directory] = [join(folder, "disk.img"), join(folder, "disk")];
  mkdirSync(directory);
  const file = openSync(image, "w");
  ftruncateSync(file, size);
  closeSync(file);
  execFileSync("mkfs.ext4", ["-q", "-m", "1", "-E", "lazy_itable_init=0,lazy_journal_init=0", image]);
  execFileSync("mount", ["-o", "loop", image, directory]);
  // A launcher started meanwhile gets these mounts in its own namespace; shared, they go away there with ours.
  execFileSync("mount", ["--make-shared", directory]);
  undo.defer(async () => void execFileSync("umount", ["--lazy", directory]));
  const free = () => {
    const { bavail, bsize } = statfsSync(directory);
    return bavail * bsize;
  };
  let files = 0;
  return {
    directory,
    free,
    fill(left) {
      // To fill it completely, root's reserve is taken too.
      const take = () => (left > 0 ? free() - left : size);
      for (let piece = take(); piece >= 4096; ) {
        const path = join(directory, `fill-${files++}`);
        try {
          execFileSync("fallocate", ["--length", String(piece), path], { stdio: "ignore" });
          // A store on it may free room meanwhile, which small pieces would not fill in time.
          piece = left > 0 ? Math.min(piece, take()) : Math.max(piece, free());
        } catch {
          rmSync(path, { force: true });
          piece = Math.floor(piece / 2);
        }
      }
    },
    empty() {
      while (files > 0) rmSync(join(directory, `fill-${--files}`), { force: true });
    },
  };
}
