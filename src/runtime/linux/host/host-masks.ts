/**
 * Keeps what is closed to other users of the host (image/host-view.ts) away from sandboxes that show directories of the
 * host: a layer of whiteouts that lies directly above these directories in every root. It also has the archive of
 * locales (images/locale-archive.ts), because all machines read it through one cache here, and because it must fit the
 * host's current C library.
 *
 *   masks/<id>/        whiteouts, the archive, and the directories on the way to them; the id is a digest of what they are
 *                      made from
 *   masks/index.json   which of them is the newest, for each list of directories, and when that was found out
 *
 * They are on the file system of the data directory if they can be. In a store with volumes they are in another subvolume
 * than these, and so a file would have the inode number of another one in the same root. So where they must be there, they
 * have no archive: whiteouts are not seen.
 *
 * The host is searched once, not at each boot or restart, and again from time to time as its files change. Machines that boot
 * afterwards, resumed ones too, have the newest masks below them; a machine that runs keeps those it was booted with. So
 * a layer of masks stays until the host is restarted.
 */

import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { chmod, lstat, mkdir, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { parentsOf } from "../../../base/files/folders.ts";
import type { FileSession } from "../files/file-session.ts";
import { closedIn, closedVersion } from "../images/host-view.ts";
import { localeArchiveFacts, localeArchivePath, makeLocaleArchive } from "../images/locale-archive.ts";
import { processTag } from "../layers/claims.ts";
import { canShareFrom } from "../layers/shared-layers.ts";
import { makePrivate, readJson, writeJson } from "../storage/json-file.ts";

export interface HostMasksOptions {
  folder: string;
  /** whether they have the archive of locales */
  hasArchive: boolean;
  filesAt(directory: string): Promise<FileSession>;
  /** which boot of the host this is */
  bootId: string;
  /** called when machines that boot from now on have other masks */
  changed: () => void;
  /** called with errors of background work */
  logError: (error: unknown) => void;
}

/** where the masks of a store are; `former`: where those of an earlier version are */
export function placeOfMasks(
  dataDir: string,
  store: string,
  hasVolumes: boolean,
): Pick<HostMasksOptions, "folder" | "hasArchive"> & { former?: string } {
  const [beside, within] = [join(dataDir, "masks"), join(store, "masks")];
  if (!hasVolumes) return { folder: within, hasArchive: true };
  return canShareFrom(beside, store)
    ? { folder: beside, hasArchive: true, former: within }
    : { folder: within, hasArchive: false };
}

/** between two searches of the host, in ms; one takes less than a second of one processor */
const searchEvery = 10 * 60_000;

/** A file that sandboxes see differently than the host. */
interface Mask {
  /** the host's directory, and a path below it */
  directory: string;
  path: string;
  /** what the archive is made from, if it is the archive of locales; others are hidden */
  archiveOf?: string;
}

export class HostMasks {
  readonly #options: HostMasksOptions;
  /** the newest masks for a list of directories: their id, or nothing where nothing is hidden */
  readonly #newest = new Map<string, Promise<string>>();
  /** when the search began whose results all the newest masks have; undefined before the first, in ms */
  #searchedAt: number | undefined;
  #timer: NodeJS.Timeout | undefined;
  #searching: Promise<void> = Promise.resolve();
  /** the part of a search that changes the store; reading the host takes longer and changes nothing */
  #renewing: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(options: HostMasksOptions) {
    this.#options = options;
  }

  /** uses the result of the last daemon's search, and searches again as soon as this is too old */
  async open(): Promise<void> {
    const { folder, bootId } = this.#options;
    await makePrivate(folder);
    const index = await readJson(this.#index, indexFile).catch(() => undefined);
    for (const [key, id] of Object.entries(index?.newest ?? {})) {
      if (id === "" || existsSync(join(folder, id))) this.#newest.set(key, Promise.resolve(id));
    }
    if (index?.bootId !== bootId) await this.#deleteOthers(Object.values(index?.newest ?? {}));
    const age = Date.now() - (index?.searchedAt ?? Number.NEGATIVE_INFINITY);
    const isRecent = index?.bootId === bootId && index.version === closedVersion && age >= 0 && age < searchEvery;
    if (isRecent) this.#searchedAt = index.searchedAt;
    this.#searchIn(isRecent ? searchEvery - age : 0);
  }

  #searchIn(ms: number): void {
    this.#timer = setTimeout(() => {
      this.#searchIn(searchEvery);
      void this.search();
    }, ms);
    this.#timer.unref();
  }

  /** resolves when nothing of it uses the store any more */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#renewing.catch(() => undefined);
  }

  /** what must lie directly above these directories of the host: one directory, or none */
  async above(directories: readonly string[]): Promise<string[]> {
    const key = JSON.stringify(directories);
    let newest = this.#newest.get(key);
    if (!newest) {
      // Masks of an earlier search may be older than this one.
      if (this.#newest.size === 0) this.#searchedAt = Date.now();
      newest = this.#masksIn(directories).then((masks) => this.#layerOf(masks));
      this.#newest.set(key, newest);
      newest.then(
        () => this.#remember(),
        () => this.#newest.delete(key),
      );
    }
    const id = await newest;
    return id === "" ? [] : [join(this.#options.folder, id)];
  }

  /** searches the host again, one search at a time, and makes new masks where these files have changed */
  search(): Promise<void> {
    this.#searching = this.#searching.then(() => this.#search());
    return this.#searching;
  }

  async #search(): Promise<void> {
    try {
      const begun = Date.now();
      for (const [key, before] of [...this.#newest]) {
        const masks = await this.#masksIn(z.array(z.string()).parse(JSON.parse(key)));
        if (this.#isClosed) return;
        this.#renewing = this.#renew(key, before, masks);
        await this.#renewing;
      }
      if (this.#newest.size === 0 || this.#isClosed) return;
      this.#searchedAt = begun;
      this.#renewing = this.#remember();
      await this.#renewing;
    } catch (error) {
      // Ctrl-C in a terminal also ends the program that searches; the search is repeated, unless the daemon ends too.
      if (!isInterrupted(error)) this.#options.logError(error);
    }
  }

  async #masksIn(directories: readonly string[]): Promise<Mask[]> {
    const { hasArchive } = this.#options;
    const found = await Promise.all(
      directories.map(async (directory): Promise<Mask[]> => {
        const archiveOf = hasArchive ? await localeArchiveFacts(directory) : undefined;
        const hidden = (await closedIn(directory)).map((path): Mask => ({ directory, path }));
        // A host that closes it to its users has a reason.
        if (archiveOf === undefined || hidden.some(({ path }) => localeArchivePath.startsWith(path))) return hidden;
        return [...hidden, { directory, path: localeArchivePath, archiveOf }];
      }),
    );
    return found.flat();
  }

  async #renew(key: string, before: Promise<string>, masks: Mask[]): Promise<void> {
    const id = await this.#layerOf(masks);
    if (id === (await before)) return;
    this.#newest.set(key, Promise.resolve(id));
    await this.#remember();
    this.#options.changed();
  }

  /** the id of the layer that has these, made unless it is there */
  async #layerOf(masks: Mask[]): Promise<string> {
    if (masks.length === 0) return "";
    const id = createHash("sha256").update(JSON.stringify(masks)).digest("hex").slice(0, 32);
    const { folder } = this.#options;
    if (existsSync(join(folder, id))) return id;
    const building = join(folder, `building-${processTag()}`);
    await mkdir(building, { mode: 0o755 });
    try {
      await this.#write(building, masks);
      await rename(building, join(folder, id)).catch((error) => {
        if (!existsSync(join(folder, id))) throw error;
      });
    } finally {
      await rm(building, { recursive: true, force: true });
    }
    return id;
  }

  async #write(into: string, masks: Mask[]): Promise<void> {
    const files = await this.#options.filesAt(into);
    try {
      const made: Mask[] = [];
      for (const { directory, path, archiveOf } of masks) {
        for (const parent of parentsOf(path)) {
          if (made.some((other) => other.path === parent)) continue;
          await files.mkdir(`/${parent}`, { mode: 0o755 });
          made.push({ directory, path: parent });
        }
        if (archiveOf === undefined) await files.whiteout(`/${path}`);
        // Without it programs still find their locale, only later.
        else if (await makeLocaleArchive(directory, join(into, path))) await chmod(join(into, path), 0o644);
      }
      // The uppermost of several directories says what all of them look like; from the inside out, because of the times.
      for (const { directory, path } of made.reverse()) {
        const { uid, gid, mode, mtimeMs } = await lstat(join(directory, path));
        await files.chown(`/${path}`, uid, gid);
        await files.chmod(`/${path}`, mode & 0o7777);
        await files.utime(`/${path}`, Math.floor(mtimeMs));
      }
    } finally {
      files.close();
    }
  }

  get #index(): string {
    return join(this.#options.folder, "index.json");
  }

  async #remember(): Promise<void> {
    const settled = await Promise.allSettled(
      [...this.#newest].map(async ([key, id]): Promise<[string, string]> => [key, await id]),
    );
    const newest = Object.fromEntries(settled.flatMap((each) => (each.status === "fulfilled" ? [each.value] : [])));
    const record = { bootId: this.#options.bootId, version: closedVersion, searchedAt: this.#searchedAt, newest };
    await writeJson(this.#index, record, { durable: false }).catch(this.#options.logError);
  }

  /** after a restart of the host nothing runs that could have them below it */
  async #deleteOthers(newest: readonly string[]): Promise<void> {
    const { folder } = this.#options;
    const old = (await readdir(folder)).filter((name) => name !== "index.json" && !newest.includes(name));
    for (const name of old) await rm(join(folder, name), { recursive: true, force: true });
  }
}

const indexFile = z.object({
  bootId: z.string(),
  version: z.number().optional(),
  searchedAt: z.number().optional(),
  newest: z.record(z.string(), z.string().regex(/^[0-9a-f]*$/)),
});

function isInterrupted(error: unknown): boolean {
  return error instanceof Error && "signal" in error && error.signal === "SIGINT";
}
