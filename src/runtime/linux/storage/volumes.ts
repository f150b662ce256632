/** The writable side of machines: a btrfs subvolume where the store can, a plain folder where it cannot. */

import { execFile } from "node:child_process";
import { hash } from "node:crypto";
import { chownSync, existsSync, mkdirSync, readdirSync, rmdirSync, rmSync, unlinkSync } from "node:fs";
import { constants } from "node:os";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { makeFolderSync } from "../../../base/files/folders.ts";
import { isSandkeepError } from "../../../core/model/errors.ts";
import { errnoOf } from "../guest-wire/failure.ts";
import type { Launcher } from "../guest-wire/launcher.ts";
import type { MachinePlan } from "../machines/plan.ts";

const run = promisify(execFile);
const mountPrefix = "mount-";
/** how often to try to delete a folder that another process still writes into */
const removals = 6;

export class Volumes {
  readonly #launcher: Launcher;
  /** whether the store has subvolumes */
  readonly real: boolean;

  constructor(launcher: Launcher, real: boolean) {
    this.#launcher = launcher;
    this.real = real;
  }

  /** with the directories that overlay needs: "fs" and an empty "work" */
  async create(path: string, owner = 0): Promise<void> {
    if (this.real) await this.#launcher.createVolume(path);
    else mkdirSync(path, { mode: 0o700 });
    mkdirSync(join(path, "fs"), { mode: 0o755 });
    if (owner !== 0) chownSync(join(path, "fs"), owner, owner);
    mkdirSync(join(path, "work"), { mode: 0o700 });
  }

  /** makes a copy of a machine's volume ready to be mounted */
  renew(path: string): void {
    makeFolderSync(join(path, "work"), 0o700);
    // The overlay's notes about a mount that is gone would keep the next one from working.
    rmSync(join(path, "work/work/incompat"), { recursive: true, force: true });
  }

  /** a copy that shares its data; a plain folder is copied as cheaply as the file system can */
  async copy(from: string, to: string): Promise<void> {
    if (this.real) await this.#launcher.snapshotVolume(from, to);
    else await run("cp", ["-a", "--reflink=auto", from, to]);
  }

  async delete(path: string): Promise<void> {
    if (this.real) {
      await this.#launcher.deleteVolume(path).catch((error) => {
        if (isSandkeepError(error, "not-found")) return;
        // A program made volumes in it. The kernel deletes an empty one like a folder, so a walk deletes them all.
        if (errnoOf(error) === constants.errno.ENOTEMPTY) return this.#remove(path);
        throw error;
      });
    } else {
      await this.#remove(path);
    }
  }

  /** a machine's folder with the volumes in it */
  async deleteFolder(plan: Pick<MachinePlan, "folder" | "volume" | "egressLog" | "spare">): Promise<void> {
    const { folder, volume, egressLog, spare } = plan;
    if (!removeEmpty(egressLog)) rmSync(egressLog, { recursive: true, force: true });
    rmSync(spare, { force: true });
    // A stop without a snapshot has deleted it already.
    if (existsSync(volume)) await this.delete(volume);
    await this.deleteMounts(folder);
    if (!removePlain(folder)) await this.#remove(folder);
  }

  /** the frozen copies of drives that a machine had mounted */
  async deleteMounts(folder: string): Promise<void> {
    const names = existsSync(folder) ? readdirSync(folder) : [];
    for (const name of names.filter((candidate) => candidate.startsWith(mountPrefix)))
      await this.delete(join(folder, name));
  }

  /** freezes a drive for one machine; returns the path of the copy */
  async freeze(drive: string, folder: string, index: number): Promise<string> {
    const copy = join(folder, `${mountPrefix}${index}`);
    await this.copy(drive, copy);
    return copy;
  }

  async limit(path: string, bytes: number): Promise<void> {
    if (this.real) await this.#launcher.limitVolume(path, bytes);
  }

  /** one limit for all sessions' volumes of a sandbox; data that a deleted volume shares with others still counts */
  async limitLine(path: string, line: string, bytes: number): Promise<void> {
    if (this.real) await this.#launcher.limitLine(path, bytes, numberOf(line));
  }

  /** undefined where it would need a walk */
  async usage(path: string): Promise<number | undefined> {
    if (!this.real) return undefined;
    return this.#launcher.volumeUsage(path).catch(() => undefined);
  }

  /** bytes below a path, counted file by file */
  async measure(path: string): Promise<number> {
    const session = await this.#launcher.filesAt(path);
    try {
      return (await session.usage("/")).bytes;
    } finally {
      session.close();
    }
  }

  /** by the guest: hostile trees may be deeper than any path */
  async #remove(path: string): Promise<void> {
    const session = await this.#launcher.filesAt(dirname(path));
    try {
      for (let attempt = 1; ; attempt++) {
        try {
          return await session.remove(`/${basename(path)}`, { recursive: true, force: true });
        } catch (error) {
          // The egress process may write its last lines about the machine while its folder is being emptied.
          if (errnoOf(error) !== constants.errno.ENOTEMPTY || attempt === removals) throw error;
          await new Promise((resolve) => setTimeout(resolve, 50 * attempt));
        }
      }
    } finally {
      session.close();
    }
  }
}

/** one call for the folder of a machine that has used no network; it is another user's, so nothing in it is followed */
function removeEmpty(folder: string): boolean {
  try {
    rmdirSync(folder);
    return true;
  } catch {
    return false;
  }
}

/** most entries of a folder that are deleted here, where everything else waits meanwhile */
const fewEntries = 64;

/**
 * Deletes a small folder as the runtime makes it: files, and folders of files. False if it holds anything else, so that
 * the guest has to delete it, which takes a process of its own and a connection to it.
 */
function removePlain(folder: string, depth = 1): boolean {
  try {
    const entries = readdirSync(folder, { withFileTypes: true });
    if (entries.length > fewEntries) return false;
    for (const entry of entries) {
      const path = join(folder, entry.name);
      if (!entry.isDirectory()) unlinkSync(path);
      else if (depth === 0 || !removePlain(path, depth - 1)) return false;
    }
    rmdirSync(folder);
    return true;
  } catch {
    return false;
  }
}

/** the kernel's groups have numbers of 48 bits */
function numberOf(line: string): number {
  return Number.parseInt(hash("sha256", line).slice(0, 12), 16) || 1;
}
