/**
 * The file system that holds layers and machines, mounted at <data>/store with nosuid and nodev.
 *
 * Where the data directory is on btrfs already it is used as it is (by a bind mount, for the mount's own flags).
 * Otherwise it is a sparse btrfs image in the data directory, through a loop device: subvolumes give every machine a
 * limit that the kernel enforces and captures a running machine in constant time. Where neither can be had, a plain
 * folder serves: limits are then watched, and captures, resumes and forks copy.
 *
 * Which of them it is, is decided once and kept in <data>/store.json: another one would hide everything that is there.
 */

import { execFile } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { z } from "zod";
import { messageOf, SandkeepError } from "../../../core/model/errors.ts";
import { readJson, writeJson } from "./json-file.ts";

export type StorageKind = "btrfs" | "image" | "directory";

export interface Storage {
  path: string;
  /** whether subvolumes and their limits can be used */
  volumes: boolean;
  /** whether it was not mounted before */
  isNewlyMounted: boolean;
  /** whether it is a file system of its own, with nothing else in it */
  isOwn: boolean;
}

export interface StorageOptions {
  dataDir: string;
  /** default: btrfs if the data directory is on one, else an image if this host can mount one, else a folder */
  kind?: StorageKind;
  /** of an image that is made; sparse; default 90 % of what is free */
  imageSize?: number;
  /** whether an image has all its room on the disk in advance, so that no other program can take it; default false */
  preallocated?: boolean;
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
/** how much of all machines together may be written but not on the disk, in bytes */
const mostDirty = 64 << 20;

/** mounts the store unless it is mounted; what is in it is never touched */
export async function openStorage(options: StorageOptions): Promise<Storage> {
  const path = join(options.dataDir, "store");
  mkdirSync(path, { recursive: true, mode: 0o700 });
  const kind = await kindOf(options, path);
  const wasMounted = isMounted(path);
  if (!wasMounted) {
    if (kind === "btrfs") await bind(path);
    if (kind === "image") await mountImage(options, path);
    chmodSync(path, 0o700);
  }
  // Written once it could be mounted, and before anything is put into it.
  await writeJson(kindFile(options.dataDir), { kind });
  const isNewlyMounted = !wasMounted && isMounted(path);
  return { path, volumes: kind !== "directory", isNewlyMounted, isOwn: kind === "image" };
}

/** unmounts the store, which must not be in use; the image keeps its content */
export async function closeStorage(dataDir: string, longest = patience): Promise<void> {
  const path = join(dataDir, "store");
  const deadline = Date.now() + longest;
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

/** what tells file systems apart: all subvolumes of a btrfs are on one, although each has a device number of its own */
export function fileSystemOf(path: string): string {
  const real = realpathSync(path);
  const lines = readFileSync("/proc/self/mountinfo", "utf8").split("\n");
  const mounts = lines.map((line) => line.split(" ")).map(([, , device = "", , point = ""]) => ({ device, point }));
  const holds = ({ point }: { point: string }) => {
    const plain = point.replace(/\\(\d{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
    return plain === "/" || real === plain || real.startsWith(`${plain}/`);
  };
  // Of several mounts on one point the last one is seen.
  const [deepest] = mounts.filter(holds).sort((a, b) => b.point.length - a.point.length || 0);
  const seen = mounts.filter(({ point }) => point === deepest?.point).at(-1);
  return seen?.device ?? "";
}

/** whether the store that is mounted at a path cannot be written to, as after a failed write to the disk below it */
export function isReadOnly(path: string): boolean {
  const [mount = "", fileSystem = ""] = mountLine(path)?.split(" - ") ?? [];
  const options = [mount.split(" ")[5] ?? "", fileSystem.split(" ")[2] ?? ""];
  return options.some((list) => list.split(",").includes("ro"));
}

/** takes back a remount; one that the kernel has made after an error stays as it is */
export async function remountWritable(path: string): Promise<void> {
  await run("mount", ["-o", "remount,rw", path]).catch(() => undefined);
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

/** the device that is mounted at a path */
function sourceOf(path: string): string | undefined {
  return mountLine(path)?.split(" - ")[1]?.split(" ")[1];
}

function isBtrfs(path: string): boolean {
  return statfsSync(path).type === btrfsMagic;
}

/** the kind that the data directory has; a new one gets the one that is wanted, or the best that this host can have */
async function kindOf(options: StorageOptions, path: string): Promise<StorageKind> {
  const { dataDir, kind: wanted } = options;
  const there = (await readJson(kindFile(dataDir), kindRecord))?.kind ?? existingKind(dataDir, path);
  if (there === undefined) return wanted ?? bestKind(dataDir);
  if (wanted !== undefined && wanted !== there) {
    throw refusal(path, `it is ${described[there]}, and would be hidden by ${described[wanted]}`);
  }
  if (there === "image" && !existsSync(imageOf(dataDir))) {
    throw refusal(
      path,
      `its image "${imageOf(dataDir)}" is missing; put it back, or begin with another data directory`,
    );
  }
  if (there === "btrfs" && !isBtrfs(path)) {
    throw refusal(path, "it was made on btrfs and is not on one now; is its disk mounted?");
  }
  return there;
}

/** of a data directory that an older version made, which did not write it down */
function existingKind(dataDir: string, path: string): StorageKind | undefined {
  const hasImage = existsSync(imageOf(dataDir));
  if (isMounted(path)) return hasImage ? "image" : isBtrfs(path) ? "btrfs" : "directory";
  const isUsed = existsSync(join(path, "layers"));
  if (hasImage && isUsed) {
    const choice = `{"kind":"image"} or {"kind":"directory"}`;
    const file = kindFile(dataDir);
    throw refusal(
      path,
      `there is a plain folder and an image, and one would hide the other; write ${choice} to "${file}"`,
    );
  }
  if (hasImage) return "image";
  if (!isUsed) return undefined;
  return isBtrfs(path) ? "btrfs" : "directory";
}

const described: Record<StorageKind, string> = {
  btrfs: "a folder on btrfs",
  image: "a btrfs image",
  directory: "a plain folder",
};

const kindRecord = z.object({ kind: z.enum(["btrfs", "image", "directory"]) });

function kindFile(dataDir: string): string {
  return join(dataDir, "store.json");
}

function refusal(path: string, why: string): SandkeepError {
  return new SandkeepError("conflict", `Cannot open the store "${path}": ${why}`);
}

async function bestKind(dataDir: string): Promise<StorageKind> {
  if (isBtrfs(dataDir)) return "btrfs";
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
  const preallocated = options.preallocated === true;
  if (preallocated) await takeRoom(image);
  try {
    // commit=1: what a snapshot has to wait for is at most what was written in a second
    const discard = preallocated ? "nodiscard" : "discard=async";
    await run("mount", ["-o", `loop,nosuid,nodev,noatime,${discard},commit=1`, image, path]);
  } catch (cause) {
    throw new SandkeepError("unsupported", `Cannot mount the store "${image}": ${messageOf(cause)}`, { cause });
  }
  await direct(path);
  limitDirty(path);
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

/** fills the holes of a sparse image */
async function takeRoom(image: string): Promise<void> {
  try {
    await run("fallocate", ["--length", String(statSync(image).size), image]);
  } catch (cause) {
    const how = "free room on its disk, or start without SANDKEEP_STORE_SIZE";
    throw new SandkeepError("no-room", `Cannot take the room of the store "${image}": ${messageOf(cause)}; ${how}`, {
      cause,
    });
  }
}

/** the loop device reads and writes past the page cache, or every page would be cached twice; not all hosts can */
async function direct(path: string): Promise<void> {
  const device = sourceOf(path);
  if (device !== undefined) await run("losetup", ["--direct-io=on", device]).catch(() => undefined);
}

/**
 * A stop waits until what its machine has written is on the disk. So that this is never much, writers wait for the disk
 * from here on; not all kernels can.
 */
function limitDirty(path: string): void {
  try {
    const device = basename(sourceOf(path) ?? "");
    const all = "/sys/fs/btrfs";
    const own = readdirSync(all).find((uuid) => existsSync(join(all, uuid, "devices", device)));
    if (own === undefined) return;
    writeFileSync(join(all, own, "bdi/strict_limit"), "1");
    writeFileSync(join(all, own, "bdi/max_bytes"), `${mostDirty}`);
  } catch {
    // Then a stop after a gigabyte takes half a second.
  }
}
