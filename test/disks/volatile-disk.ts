/**
 * A disk that loses unflushed data at a loss of power: ext4 on a loop device, on volatile-disk-server.ts. Everything
 * between a program's fsync and the disk is the real kernel: only the disk is simulated.
 */

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { mkdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { eventually, root, tempDir, type Undo } from "../harness/harness.ts";
import { noteFolder } from "../runner/leftovers.ts";

const run = promisify(execFile);

export interface VolatileDisk {
  /** its mount point */
  directory: string;
  /** saves the state that a loss of power would leave at this moment; the disk goes on */
  lose(seed: number): Promise<void>;
  /** unmounts the disk and mounts the state of the last loss; the disk must not be in use */
  restart(): Promise<void>;
}

export async function volatileDisk(undo: Undo, size: number): Promise<VolatileDisk> {
  const folder = await tempDir(undo);
  noteFolder(undo, folder);
  const directory = join(folder, "disk");
  const at = (name: string) => join(folder, name);
  for (const path of [directory, at("fuse")]) await mkdir(path);
  await run("truncate", ["-s", `${size}`, at("current")]);
  await run("mkfs.ext4", ["-q", "-E", "lazy_itable_init=1,lazy_journal_init=1", at("current")]);
  await run("cp", ["--sparse=always", "--reflink=auto", at("current"), at("durable")]);
  let mounted = await mount(folder, directory);
  undo.defer(() => mounted.away());
  return {
    directory,
    lose: (seed) => writeFile(join(folder, "fuse/lose"), `${seed}`),
    async restart() {
      await mounted.away();
      await rename(at("lost"), at("durable"));
      await run("cp", ["--sparse=always", "--reflink=auto", at("durable"), at("current")]);
      mounted = await mount(folder, directory);
    },
  };
}

async function mount(folder: string, directory: string): Promise<{ away(): Promise<void> }> {
  const undo = new AsyncDisposableStack();
  try {
    const fuse = join(folder, "fuse");
    const server = await serve(folder, fuse);
    undo.defer(async () => {
      await run("umount", ["--lazy", fuse]);
      const exited = once(server, "exit");
      if (server.exitCode === null && server.kill("SIGKILL")) await exited;
    });
    const { stdout } = await run("losetup", ["--find", "--show", join(fuse, "disk")]);
    const device = stdout.trim();
    // It goes away with its last user: a launcher of another test may hold it in its mount namespace.
    undo.defer(async () => void (await run("losetup", ["--detach", device])));
    await run("mount", [device, directory]);
    undo.defer(async () => void (await run("umount", ["--lazy", directory])));
  } catch (error) {
    await undo.disposeAsync();
    throw error;
  }
  return { away: () => undo.disposeAsync() };
}

async function serve(folder: string, fuse: string): Promise<ChildProcess> {
  const kernel = openSync("/dev/fuse", "r+");
  try {
    const files = ["current", "durable", "lost"].map((name) => join(folder, name));
    const options = `fd=3,rootmode=40000,user_id=0,group_id=0`;
    // Everything waits for the disk, so on a busy host it gets a higher priority.
    const script = `mount -i -t fuse -o ${options} volatile-disk "$1" && shift && exec nice -n -15 "$@"`;
    const server = [process.execPath, join(root, "test/disks/volatile-disk-server.ts"), ...files];
    const child = spawn("sh", ["-c", script, "sh", fuse, ...server], {
      stdio: ["ignore", "ignore", "inherit", kernel],
    });
    await eventually("the disk is there", async () => (await run("stat", [join(fuse, "disk")])).stdout !== "");
    return child;
  } finally {
    closeSync(kernel);
  }
}
