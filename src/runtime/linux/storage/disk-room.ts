/**
 * Keeps a reserve free on the disk that holds the data directory. The store is a sparse image on that disk: when the
 * disk has no room left, the kernel cannot write what it has already accepted, and makes the store read-only for good.
 *
 *            free + ballast < reserve                free < reserve / 8
 *   plenty ───────────────────────────▶ short ───────────────────────────▶ short, ballast given up
 *      ▲        growth is refused         │                                        │
 *      └──────────────────────────────────┴────────────────────────────────────────┘
 *                            free + ballast ≥ 1¼ × reserve
 *
 * plenty: everything is allowed. Half of the reserve is in a file, the ballast, which other programs cannot use up.
 * short: nothing that makes the store grow may begin, and machines cannot add to their files. Reading, deleting,
 *   stopping and running commands go on.
 * ballast given up: another program has filled the disk. The ballast's room goes to writes that were accepted before.
 *
 * The store's own file system gets a reserve in the same way, without a ballast: commands that delete files, and the
 * records of machines that stop, need a little room in it.
 */

import { execFile } from "node:child_process";
import { existsSync, rmSync, statfsSync, statSync, writeFileSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { SandkeepError } from "../../../core/model/errors.ts";
import type { DiskVitals } from "../../../core/ports/vitals.ts";

export interface DiskRoomOptions {
  dataDir: string;
  /** bytes to keep free; default a twentieth of the disk, between 256 MiB and 2 GiB */
  reserve?: number;
  /** called with a sentence when room becomes short, and when there is enough again */
  say: (sentence: string) => void;
}

const run = promisify(execFile);
/** pause between two checks, in ms; all writes in between have to fit into the reserve */
const pause = 100;
/** the same while less than twice the reserve is left */
const shortPause = 20;
/** free bytes below which neither the database nor a record can be written */
const least = 8 << 20;
const smallestReserve = 256 << 20;
const smallestStoreReserve = 192 << 20;
const largestReserve = 2 ** 31;
const tmpfsMagic = 0x01021994;

export class DiskRoom {
  readonly #options: DiskRoomOptions;
  readonly #ballast: string;
  readonly #reserve: number;
  /** the place that is short of room, and by how much; undefined while there is plenty */
  #shortage: Shortage | undefined;
  #places: DiskVitals[] = [];
  #isClosed = false;
  #timer: NodeJS.Timeout | undefined;
  #store: string | undefined;
  #follow: () => Promise<void> = async () => undefined;

  /** gives up the ballast where a start needs its room; throws when there is too little room to start at all */
  static makeStartable({ dataDir, reserve }: Omit<DiskRoomOptions, "say">): void {
    if (freeOf(statfsSync(dataDir)) >= least) return;
    rmSync(ballastOf(dataDir), { force: true });
    const left = freeOf(statfsSync(dataDir));
    // File systems keep room for root, and some count room as free that no program can use.
    if (left >= least || canWrite(join(dataDir, ".room"))) return;
    const how = `Free at least ${inWords(reserve ?? usualReserve(dataDir))} there and start again`;
    throw new SandkeepError("no-room", `Cannot serve "${dataDir}": its disk has ${inWords(left)} left. ${how}`);
  }

  /** checks once, and from then on ten times a second, or more often while room is running out */
  static async open(options: DiskRoomOptions): Promise<DiskRoom> {
    const room = new DiskRoom(options);
    await room.#judge();
    room.#schedule();
    return room;
  }

  private constructor(options: DiskRoomOptions) {
    this.#options = options;
    this.#ballast = ballastOf(options.dataDir);
    this.#reserve = options.reserve ?? usualReserve(options.dataDir);
  }

  get isShort(): boolean {
    return this.#shortage !== undefined;
  }

  /** the results of the last check */
  get places(): DiskVitals[] {
    return this.#places;
  }

  /** bytes that are kept free */
  get reserve(): number {
    return this.#reserve;
  }

  /** Watches the mounted store as well. Every check calls `follow`, one call at a time. */
  attach(store: string, follow: () => Promise<void>): void {
    this.#store = store;
    this.#follow = follow;
  }

  detach(): void {
    this.#store = undefined;
    this.#follow = async () => undefined;
  }

  /** the room that is left and the room that should be, in words, as of now; undefined where there is enough */
  shortage(): string | undefined {
    const { dataDir } = this.#options;
    const short = this.#shortage ?? shortageIn({ dataDir, store: this.#store, reserve: this.#reserve });
    return short && inSentence(short);
  }

  /** throws while room is short; `what` names the action that would make the store grow */
  require(what: string): void {
    refuse(this.#shortage, what);
  }

  /** the ballast stays */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #schedule(): void {
    if (this.#isClosed) return;
    this.#timer = setTimeout(
      () => {
        void this.#look().finally(() => this.#schedule());
      },
      this.#isRunningOut() ? shortPause : pause,
    );
    this.#timer.unref();
  }

  #isRunningOut(): boolean {
    return !this.isShort && this.#places.some(({ free, reserve }) => free < 2 * reserve);
  }

  async #look(): Promise<void> {
    try {
      await this.#judge();
      if (!this.#isClosed) await this.#follow();
    } catch {
      // The next check follows at once, and reports the failure if it matters.
    }
  }

  async #judge(): Promise<void> {
    const { dataDir, say } = this.#options;
    const below = await statfs(dataDir);
    const disk = freeOf(below);
    const held = heldIn(dataDir);
    const store = this.#store === undefined ? undefined : await statfs(this.#store);
    const before = this.#shortage;
    const now = [
      shortageOf("disk", { free: disk, held, reserve: this.#reserve, before }),
      store && shortageOf("store", { free: freeOf(store), held: 0, reserve: reserveIn(store), before }),
    ].find((shortage) => shortage !== undefined);
    this.#shortage = now;
    this.#places = [
      { place: "disk", total: totalOf(below), free: disk + held, reserve: this.#reserve },
      ...(store
        ? [{ place: "store", total: totalOf(store), free: freeOf(store), reserve: reserveIn(store) } as const]
        : []),
    ];
    if (disk + held < this.#reserve && disk < this.#reserve / 8) rmSync(this.#ballast, { force: true });
    if (now && !before) {
      const place = now.place === "disk" ? `The disk of "${dataDir}"` : `The store "${this.#store}"`;
      const setting = now.place === "disk" ? ` (SANDKEEP_DISK_RESERVE is ${inWords(this.#reserve)})` : "";
      const what = "no sandbox is started and none can add to its files until there is room";
      say(`${place} has only ${inWords(now.free)} left: ${what}${setting}`);
    }
    if (before && !now) say(`"${dataDir}" has room again: ${inWords(disk)} on its disk`);
    if (!now && held === 0) await this.#take();
  }

  /** half of the reserve, in a file; file systems that cannot reserve room for a file keep all of it free */
  async #take(): Promise<void> {
    const size = Math.floor(this.#reserve / 2);
    const { type, bavail, bsize } = statfsSync(this.#options.dataDir);
    // The free room has to be enough with the ballast in place; on a tmpfs the ballast would use memory.
    if (type === tmpfsMagic || bavail * bsize < this.#reserve * 1.25) return;
    try {
      rmSync(this.#ballast, { force: true });
      writeFileSync(this.#ballast, "", { mode: 0o600 });
      await run("fallocate", ["--length", String(size), this.#ballast]);
    } catch {
      rmSync(this.#ballast, { force: true });
    }
  }
}

/** throws while room is short, for a process other than the daemon: checks once, and leaves the ballast alone */
export function requireRoom(place: { dataDir: string; store: string; reserve?: number }, what: string): void {
  refuse(shortageIn(place), what);
}

function refuse(shortage: Shortage | undefined, what: string): void {
  if (shortage) throw new SandkeepError("no-room", `Cannot ${what}: ${inSentence(shortage)}`);
}

function inSentence({ place, free, reserve }: Shortage): string {
  return `${words[place]} has ${inWords(free)} left, and ${inWords(reserve)} are kept in reserve`;
}

/** the shortage of the disk or, if that has enough room, of the store on it; a failed store cannot be checked */
function shortageIn(place: { dataDir: string; store: string | undefined; reserve?: number }): Shortage | undefined {
  const { dataDir, store, reserve = usualReserve(dataDir) } = place;
  const free = freeOf(statfsSync(dataDir));
  const ofDisk = shortageOf("disk", { free, held: heldIn(dataDir), reserve, before: undefined });
  if (ofDisk || store === undefined) return ofDisk;
  try {
    const inside = statfsSync(store);
    return shortageOf("store", { free: freeOf(inside), held: 0, reserve: reserveIn(inside), before: undefined });
  } catch {
    return undefined;
  }
}

interface Shortage {
  place: "disk" | "store";
  free: number;
  reserve: number;
}

const words: Record<Shortage["place"], string> = { disk: "the host's disk", store: "the store of all sandboxes" };

/** undefined where there is enough; for a place that was short, enough is a quarter more */
function shortageOf(
  place: Shortage["place"],
  { free, held, reserve, before }: { free: number; held: number; reserve: number; before: Shortage | undefined },
): Shortage | undefined {
  const wanted = before?.place === place ? reserve * 1.25 : reserve;
  return free + held < wanted ? { place, free, reserve } : undefined;
}

/**
 * The bytes to keep free in a store: a sixteenth. A small store keeps enough for data that the kernel has accepted but
 * not yet counted as used.
 */
function reserveIn(store: { blocks: number; bsize: number }): number {
  const size = totalOf(store);
  return Math.floor(Math.min(Math.max(size / 16, smallestStoreReserve), size / 4, largestReserve));
}

/** bytes to keep free on the disk of a data directory when no setting gives the number */
export function usualReserve(dataDir: string): number {
  const size = totalOf(statfsSync(dataDir));
  return Math.min(Math.max(Math.floor(size / 20), smallestReserve), largestReserve);
}

/** bytes that the ballast of a data directory holds */
export function heldIn(dataDir: string): number {
  const path = ballastOf(dataDir);
  return existsSync(path) ? statSync(path).blocks * 512 : 0;
}

function ballastOf(dataDir: string): string {
  return join(dataDir, "reserve");
}

function totalOf({ blocks, bsize }: { blocks: number; bsize: number }): number {
  return blocks * bsize;
}

function freeOf({ bavail, bsize }: { bavail: number; bsize: number }): number {
  return bavail * bsize;
}

function canWrite(path: string): boolean {
  try {
    writeFileSync(path, Buffer.alloc(least), { flush: true });
    return true;
  } catch {
    return false;
  } finally {
    rmSync(path, { force: true });
  }
}

/** bytes in the units of the settings */
export function inWords(bytes: number): string {
  const [unit, size] = bytes < 2 ** 30 ? ["MiB", 2 ** 20] : ["GiB", 2 ** 30];
  return `${Number((bytes / Number(size)).toFixed(1))} ${unit}`;
}
