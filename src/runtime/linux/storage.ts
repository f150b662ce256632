/**
 * The file system that holds layers and machines, mounted at <data>/store with nosuid and nodev.
 *
 * Where the data directory is on btrfs already it is used as it is (by a bind mount, for the mount's own flags).
 * Otherwise it is a sparse btrfs image in the data directory, through a loop device: subvolumes give every machine a
 * limit that the kernel enforces and captures a running machine in constant time. Where neither can be had, a plain
 * folder serves: limits are then watched, and a capture of a running machine copies.
 */

import { execFile } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statfsSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { messageOf, SandkeepError } from "../../core/errors.ts";

export type StorageKind = "btrfs" | "image" | "directory";

export interface Storage {
  path: string;
  /** whether subvolumes and their limits can be used */
  volumes: boolean;
}

export interface StorageOptions {
  dataDir: string;
  /** default: btrfs if the data directory is on one, else an image if this host can mount one, else a folder */
  kind?: StorageKind;
  /** of an image that is made; sparse; default 90 % of what is free */
  imageSize?: number;
  /** called with a sentence before what takes seconds */
  progress?: (sentence: string) => void;
}

const run = promisify(execFile);
const btrfsMagic = 0x9123683e;
/** how long an unmount may be refused, in ms */
const patience = 5000;
const smallestImage = 512 << 20;
const largestShared = 8 * 2 ** 30;
const longestReclaim = 10_000;

/** mounts the store unless it is mounted; what is in it is never touched */
export async function openStorage(options: StorageOptions): Promise<Storage> {
  const path = join(options.dataDir, "store");
  mkdirSync(path, { recursive: true, mode: 0o700 });
  if (isMounted(path)) return { path, volumes: isBtrfs(path) };
  const kind = options.kind ?? (await bestKind(options));
  if (kind === "btrfs") await bind(path);
  if (kind === "image") await mountImage(options, path);
  chmodSync(path, 0o700);
  return { path, volumes: kind !== "directory" };
}

/** unmounts the store, which must not be in use; the image keeps its content */
export async function closeStorage(dataDir: string): Promise<void> {
  const path = join(dataDir, "store");
  const deadline = Date.now() + patience;
  while (isMounted(path)) {
    // the mounts of machines that have just ended are taken apart behind them
    const failure = await run("umount", [path]).then(
      () => undefined,
      (error: unknown) => error,
    );
    if (failure === undefined) return;
    if (Date.now() > deadline) throw failure;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/**
 * Makes deleted volumes give their room back now: by itself the kernel takes half a minute. A sync wakes what frees
 * them, but passes over those that a machine's mounts, which are being taken apart, still hold; so it is asked again
 * until none is left. What was freed can be used after one more.
 */
export async function reclaim(path: string): Promise<void> {
  const deadline = Date.now() + longestReclaim;
  // where there are no volumes, or no btrfs, there is nothing to be had
  const sync = () => run("btrfs", ["filesystem", "sync", path]).catch(() => undefined);
  do {
    await sync();
    await new Promise((resolve) => setTimeout(resolve, 20));
  } while ((await hasDeletedVolumes(path)) && Date.now() < deadline);
  await sync();
}

async function hasDeletedVolumes(path: string): Promise<boolean> {
  return run("btrfs", ["subvolume", "list", "-d", path]).then(
    ({ stdout }) => stdout.trim() !== "",
    () => false,
  );
}

function isMounted(path: string): boolean {
  return existsSync(path) && mountLine(path) !== undefined;
}

/** of mountinfo, which knows no symlinks and writes spaces and the like as octal numbers */
function mountLine(path: string): string | undefined {
  const written = realpathSync(path).replace(/[ \t\n\\]/g, (char) => `\\0${char.charCodeAt(0).toString(8)}`);
  return readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .find((line) => line.split(" ")[4] === written);
}

function isBtrfs(path: string): boolean {
  return statfsSync(path).type === btrfsMagic;
}

async function bestKind(options: StorageOptions): Promise<StorageKind> {
  if (isBtrfs(options.dataDir)) return "btrfs";
  if (existsSync(imageOf(options.dataDir))) return "image";
  const able = await run("mkfs.btrfs", ["--version"]).then(
    () => existsSync("/dev/loop-control") && readFileSync("/proc/filesystems", "utf8").includes("\tbtrfs"),
    () => false,
  );
  return able ? "image" : "directory";
}

function imageOf(dataDir: string): string {
  return join(dataDir, "store.btrfs");
}

async function bind(path: string): Promise<void> {
  await run("mount", ["--bind", path, path]);
  await run("mount", ["-o", "remount,bind,nosuid,nodev", path]);
}

async function mountImage(options: StorageOptions, path: string): Promise<void> {
  const image = imageOf(options.dataDir);
  if (!existsSync(image)) await makeImage(image, options);
  try {
    await run("mount", ["-o", "loop,nosuid,nodev,noatime,discard=async", image, path]);
  } catch (cause) {
    throw new SandkeepError("unsupported", `Cannot mount the store "${image}": ${messageOf(cause)}`, { cause });
  }
  await direct(path);
}

/** made aside and renamed, so that a half-made image is never taken for one */
async function makeImage(image: string, options: StorageOptions): Promise<void> {
  const { bavail, bsize } = statfsSync(options.dataDir);
  const size = options.imageSize ?? Math.floor((bavail * bsize * 0.9) / (1 << 20)) * (1 << 20);
  if (size < smallestImage) {
    throw new SandkeepError("limit", `Cannot make the store "${image}": only ${bavail * bsize} bytes are free`);
  }
  options.progress?.(`Making the store for sandboxes in ${options.dataDir}`);
  const half = `${image}.new`;
  rmSync(half, { force: true });
  writeFileSync(half, "", { mode: 0o600 });
  truncateSync(half, size);
  // In a small store files would take all the room, and what records them none: there both share it.
  const shared = size < largestShared ? ["--mixed"] : [];
  await run("mkfs.btrfs", ["-q", "--nodiscard", "-m", "single", "-d", "single", ...shared, half]);
  renameSync(half, image);
}

/** the loop device reads and writes past the page cache, or every page would be cached twice; not all hosts can */
async function direct(path: string): Promise<void> {
  const device = mountLine(path)?.split(" - ")[1]?.split(" ")[1];
  if (device !== undefined) await run("losetup", ["--direct-io=on", device]).catch(() => undefined);
}
