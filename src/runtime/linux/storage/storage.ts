/**
 * The file system that holds layers and machines, mounted at <data>/store with nosuid and nodev.
 *
 * If the data directory is on btrfs already, the store is a folder of it (by a bind mount, for the mount's own flags).
 * Otherwise it is a sparse btrfs image in the data directory, through a loop device. Subvolumes give every machine a
 * limit that the kernel enforces, and capture a running machine in constant time. If neither is possible, the store is
 * a plain folder: limits are then watched, and captures, resumes and forks copy.
 *
 * The kind is decided once and recorded in <data>/store.json: another kind would hide everything that is there.
 */

import { execFile } from "node:child_process";
import {
  chmodSync,
  existsSync,
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
import { makeFolderSync } from "../../../base/files/folders.ts";
import { isSandkeepError, messageOf, SandkeepError } from "../../../core/model/errors.ts";
import { heldIn, inWords } from "./disk-room.ts";
import { readJson, writeJson } from "./json-file.ts";
import { monitorPoint } from "./write-monitor.ts";

export type StorageKind = "btrfs" | "image" | "directory";

export interface Storage {
  path: string;
  /** whether the store has subvolumes and limits on them */
  volumes: boolean;
  /** whether this call mounted it */
  isNewlyMounted: boolean;
  /** whether it is a file system of its own, with nothing else in it */
  isOwn: boolean;
}

export interface StorageOptions {
  dataDir: string;
  /** default: btrfs if the data directory is on one, else an image if this host can mount one, else a folder */
  kind?: StorageKind;
  /** bytes of a new image, which is sparse; default 90 % of the free room */
  imageSize?: number;
  /** whether an image has all its room on the disk in advance, so that no other program can take it; default false */
  preallocated?: boolean;
  /** bytes of the disk that stay free when an image takes its room; default 0 */
  reserve?: number;
  /** called with a sentence before each step that takes seconds */
  progress?: (sentence: string) => void;
}

const run = promisify(execFile);
const btrfsMagic = 0x9123683e;
/** how long to retry a refused unmount, in ms */
const patience = 5000;
const smallestImage = 512 << 20;
const largestShared = 8 * 2 ** 30;
const longestReclaim = 10_000;
/** bytes that all machines together may have written that are not on the disk yet */
const mostDirty = 64 << 20;

/** mounts the store unless it is mounted; never changes its content */
export async function openStorage(options: StorageOptions): Promise<Storage> {
  const path = join(options.dataDir, "store");
  makeFolderSync(path, 0o700);
  const kind = await kindOf(options, path);
  const wasMounted = isMounted(path);
  if (!wasMounted) {
    if (kind === "btrfs") await bind(path);
    if (kind === "image") await mountImage(options, path);
    chmodSync(path, 0o700);
  }
  // Written after the first mount succeeded, and before anything is put into the store.
  await writeJson(kindFile(options.dataDir), { kind });
  const isNewlyMounted = !wasMounted && isMounted(path);
  return { path, volumes: kind !== "directory", isNewlyMounted, isOwn: kind === "image" };
}

/** unmounts the store, which must not be in use; the image keeps its content */
export async function closeStorage(dataDir: string, longest = patience): Promise<void> {
  const path = join(dataDir, "store");
  const deadline = Date.now() + longest;
  for (const point of [monitorPoint(path), path]) {
    while (isMounted(point)) {
      // the mounts of machines that have just ended take a moment to go away
      const failure = await run("umount", [point]).then(
        () => undefined,
        (error: unknown) => error,
      );
      if (failure === undefined) break;
      if (Date.now() > deadline) throw failure;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

/**
 * Makes deleted volumes give their room back now: by itself the kernel takes half a minute. A sync wakes the kernel's
 * cleaner, but that passes over volumes still held by mounts of machines that are ending. So this syncs again until
 * none is left. The freed room is usable after one more sync.
 */
export async function reclaim(path: string): Promise<void> {
  const deadline = Date.now() + longestReclaim;
  // without volumes or btrfs there is nothing to reclaim
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

/** identifies a file system: all subvolumes of a btrfs are one, although each has a device number of its own */
export function fileSystemOf(path: string): string {
  const real = realpathSync(path);
  const lines = readFileSync("/proc/self/mountinfo", "utf8").split("\n");
  const mounts = lines.map((line) => line.split(" ")).map(([, , device = "", , point = ""]) => ({ device, point }));
  const holds = ({ point }: { point: string }) => {
    const plain = point.replace(/\\(\d{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
    return plain === "/" || real === plain || real.startsWith(`${plain}/`);
  };
  // Of several mounts on one point only the last one is visible.
  const [deepest] = mounts.filter(holds).sort((a, b) => b.point.length - a.point.length || 0);
  const seen = mounts.filter(({ point }) => point === deepest?.point).at(-1);
  return seen?.device ?? "";
}

/** whether the store mounted at a path is read-only, as after a failed write to the disk below it */
export function isReadOnly(path: string): boolean {
  const [mount = "", fileSystem = ""] = mountLine(path)?.split(" - ") ?? [];
  const options = [mount.split(" ")[5] ?? "", fileSystem.split(" ")[2] ?? ""];
  return options.some((list) => list.split(",").includes("ro"));
}

/** undoes a remount; a store that the kernel made read-only after an error stays so */
export async function remountWritable(path: string): Promise<void> {
  await run("mount", ["-o", "remount,rw", path]).catch(() => undefined);
}

export function isMounted(path: string): boolean {
  return existsSync(path) && mountLine(path) !== undefined;
}

/** from mountinfo, which resolves symlinks and writes spaces and the like as octal numbers */
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

/** the kind of the data directory; a new one gets the kind in the options, or the best that this host supports */
async function kindOf(options: StorageOptions, path: string): Promise<StorageKind> {
  const { dataDir, kind: wanted } = options;
  const recorded = await recordedKind(dataDir);
  const there = recorded === "damaged" || recorded === undefined ? existingKind(dataDir, path) : recorded;
  if (there === undefined && recorded === "damaged") {
    const file = kindFile(dataDir);
    throw refusal(path, `"${file}" is damaged, and nothing is here that it was about; is its disk mounted?`);
  }
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

/** undefined if it was not recorded */
async function recordedKind(dataDir: string): Promise<StorageKind | "damaged" | undefined> {
  return readJson(kindFile(dataDir), kindRecord).then(
    (record) => record?.kind,
    (error) => {
      if (isSandkeepError(error)) return "damaged";
      throw error;
    },
  );
}

/** detects the kind in a data directory whose record is damaged, or of an older version, which did not record it */
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
  if (preallocated) await takeRoom(image, options);
  try {
    // commit=1: a snapshot waits for at most one second's writes
    const discard = preallocated ? "nodiscard" : "discard=async";
    await run("mount", ["-o", `loop,nosuid,nodev,noatime,${discard},commit=1`, image, path]);
  } catch (cause) {
    throw new SandkeepError("unsupported", `Cannot mount the store "${image}": ${messageOf(cause)}`, { cause });
  }
  await direct(path);
  limitDirty(path);
}

/** built under another name and renamed, so that a half-made image is never used */
async function makeImage(image: string, options: StorageOptions): Promise<void> {
  const { bavail, bsize } = statfsSync(options.dataDir);
  const size = options.imageSize ?? Math.floor((bavail * bsize * 0.9) / (1 << 20)) * (1 << 20);
  if (size < smallestImage) {
    throw new SandkeepError("limit", `Cannot make the store "${image}": only ${bavail * bsize} bytes are free`);
  }
  if (options.preallocated) requireRoom(image, size, options);
  options.progress?.(`Making the store for sandboxes in ${options.dataDir}`);
  const half = `${image}.new`;
  rmSync(half, { force: true });
  writeFileSync(half, "", { mode: 0o600 });
  truncateSync(half, size);
  // In a small store files could take all the room and leave none for metadata: there both share it.
  const shared = size < largestShared ? ["--mixed"] : [];
  await run("mkfs.btrfs", ["-q", "--nodiscard", "-m", "single", "-d", "single", ...shared, half]);
  renameSync(half, image);
}

/** fills the holes of a sparse image */
async function takeRoom(image: string, options: StorageOptions): Promise<void> {
  const { size, blocks } = statSync(image);
  requireRoom(image, size - blocks * 512, options);
  try {
    await run("fallocate", ["--length", String(size), image]);
  } catch (cause) {
    throw cannotTake(image, messageOf(cause), { cause });
  }
}

/** throws before anything is taken: the kernel keeps what it took for an image that did not fit, and the disk is full */
function requireRoom(image: string, missing: number, { dataDir, reserve = 0 }: StorageOptions): void {
  const { bavail, bsize } = statfsSync(dataDir);
  const free = bavail * bsize + heldIn(dataDir);
  if (missing <= 0 || missing + reserve <= free) return;
  const kept = reserve > 0 ? `, of which ${inWords(reserve)} are kept in reserve` : "";
  throw cannotTake(image, `it needs ${inWords(missing)} more, and its disk has ${inWords(free)} left${kept}`);
}

function cannotTake(image: string, why: string, options?: ErrorOptions): SandkeepError {
  const how = "free room on its disk, or start without SANDKEEP_STORE_SIZE";
  return new SandkeepError("no-room", `Cannot reserve the room of the store "${image}": ${why}; ${how}`, options);
}

/** the loop device bypasses the page cache, or every page would be cached twice; not all hosts can */
async function direct(path: string): Promise<void> {
  const device = sourceOf(path);
  if (device !== undefined) await run("losetup", ["--direct-io=on", device]).catch(() => undefined);
}

/**
 * A stop waits until its machine's writes are on the disk. To keep that short, writers wait for the disk from here on;
 * not all kernels can.
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
    // Without the limit a stop after writing a gigabyte takes half a second.
  }
}
