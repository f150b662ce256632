/**
 * Compares two trees of files, directory by directory, in the order of their paths.
 *
 * Programs in sandboxes made these trees, so the work and the memory of a page are limited: it lists at most
 * `listedAtOnce` entries, and then says where to go on. A directory with more than `mostInDirectory` entries is left out.
 * Files with the same type, size, mode, owner and time of modification count as equal.
 *
 * A volume is the upper layer of an overlay. A device 0/0 there says that a file of the layers below is deleted, and the
 * attribute `overlay.origin` that a file is a changed copy of one below.
 */

import { isSandkeepError, SandkeepError } from "../../../core/model/errors.ts";
import type { DiffOptions, FileFacts, TreeChange, TreeDiff } from "../../../core/ports/tree-diff.ts";
import { type Entry, infoOf } from "../files/file-entry.ts";
import type { FileSession } from "../files/file-session.ts";

/** entries that a page lists before it ends */
const listedAtOnce = 100_000;
/** a directory with more is left out, and so is one that would make a page hold twice as many in memory */
const mostInDirectory = 20_000;

export interface ComparisonLimits {
  listedAtOnce: number;
  mostInDirectory: number;
}

/** Reads a tree of files through a connection, which it opens again after it gave up a list. */
export class Tree {
  readonly #open: () => Promise<FileSession>;
  #session: Promise<FileSession> | undefined;

  constructor(open: () => Promise<FileSession>) {
    this.#open = open;
  }

  /** the entries of a directory by name, as byte strings; undefined if they are more than `most` */
  async list(path: string, most: number): Promise<Map<string, Entry> | undefined> {
    const found = new Map<string, Entry>();
    const session = await this.#connection();
    for await (const entry of session.list(bytesOf(path || "/"), { bytes: true })) {
      found.set(entry.path, entry);
      if (found.size <= most) continue;
      // The rest of the list would still arrive.
      this.close();
      return undefined;
    }
    return found;
  }

  /** whether a file is a changed copy of one in a layer below */
  async isCopy(path: string): Promise<boolean> {
    let isCopy = false;
    for await (const { entry } of (await this.#connection()).walk(bytesOf(path), { attributes: true })) {
      isCopy ||= entry.attributes.some(({ name }) => name === "trusted.overlay.origin");
    }
    return isCopy;
  }

  close(): void {
    void this.#session?.then((session) => session.close()).catch(() => undefined);
    this.#session = undefined;
  }

  #connection(): Promise<FileSession> {
    this.#session ??= this.#open();
    return this.#session;
  }
}

export async function compareTrees(
  from: Tree,
  to: Tree,
  options: DiffOptions,
  limits: ComparisonLimits = { listedAtOnce, mostInDirectory },
): Promise<TreeDiff> {
  const comparison = new Comparison(from, to, options, limits);
  const after = options.after === undefined ? undefined : componentsOf(options.after);
  await comparison.below("", { from: true, to: true }, after);
  return comparison.result();
}

type Sides<T> = { from: T; to: T };

class Comparison {
  readonly #trees: Sides<Tree>;
  readonly #options: DiffOptions;
  readonly #limits: ComparisonLimits;
  readonly #changes: TreeChange[] = [];
  #truncated = false;
  #isOver = false;
  /** entries of directories that are being compared */
  #held = 0;
  /** entries that this page has listed, besides those on the way to where it began */
  #listed = 0;
  /** the path that was compared last, as a byte string, and that of the last change of the page */
  #last = "";
  #lastChange = "";

  constructor(from: Tree, to: Tree, options: DiffOptions, limits: ComparisonLimits) {
    this.#trees = { from, to };
    this.#options = options;
    this.#limits = limits;
  }

  result(): TreeDiff {
    const { limit } = this.#options;
    const isMore = this.#changes.length > limit;
    const last = isMore ? this.#lastChange : this.#last;
    return {
      changes: this.#changes.slice(0, limit),
      ...(this.#isOver && { next: Buffer.from(last, "latin1").toString("base64url") }),
      truncated: this.#truncated,
    };
  }

  /** compares what is in a directory, in the trees that have it; `after` are the names on the way to the last page's end */
  async below(directory: string, has: Sides<boolean>, after?: readonly string[]): Promise<void> {
    this.#options.signal?.throwIfAborted();
    const lists = {
      from: has.from ? await this.#list("from", directory) : none,
      to: has.to ? await this.#list("to", directory) : none,
    };
    const { from, to } = lists;
    if (!from || !to) {
      this.#truncated = true;
      return;
    }
    const held = from.size + to.size;
    this.#held += held;
    if (!after) this.#listed += held;
    const names = [...new Set([...from.keys(), ...to.keys()])].sort();
    const first = after?.[0];
    for (const name of names) {
      if (first !== undefined && name < first) continue;
      const isOnWay = name === first;
      await this.#entry(`${directory}/${name}`, from.get(name), to.get(name), isOnWay ? after?.slice(1) : undefined);
      if (this.#isOver) break;
    }
    this.#held -= held;
  }

  /** with `rest`, the entry itself was compared by an earlier page, and what is in it up to there */
  async #entry(path: string, from: Entry | undefined, to: Entry | undefined, rest?: readonly string[]): Promise<void> {
    if (!rest) {
      if (this.#last !== "" && this.#listed > this.#limits.listedAtOnce) {
        this.#isOver = true;
        return;
      }
      const change = await this.#change(path, from, to);
      if (change) this.#report(path, change);
      if (this.#isOver) return;
      this.#last = path;
    }
    const has = { from: from?.type === "directory", to: to?.type === "directory" };
    if (has.from || has.to) await this.below(path, has, rest?.length === 0 ? undefined : rest);
  }

  async #change(path: string, from: Entry | undefined, to: Entry | undefined): Promise<TreeChange | undefined> {
    const [before, after] = [factsOf(from), factsOf(to)];
    const named = { path: textOf(path), ...(before && { before }), ...(after && { after }) };
    if (before && after) return isSame(before, after) ? undefined : { ...named, change: "changed" };
    if (before) return { ...named, change: "removed" };
    if (!after) return to && !from ? { ...named, change: "removed" } : undefined;
    const isCopy = after.type === "file" && !from && (await this.#trees.to.isCopy(path).catch(() => false));
    return { ...named, change: isCopy ? "changed" : "added" };
  }

  #report(path: string, change: TreeChange): void {
    this.#changes.push(change);
    // One more than the page has, which says that there is another page.
    if (this.#changes.length > this.#options.limit) this.#isOver = true;
    else this.#lastChange = path;
  }

  /** undefined if the directory has to be left out */
  async #list(side: keyof Sides<Tree>, directory: string): Promise<Map<string, Entry> | undefined> {
    const { mostInDirectory: most } = this.#limits;
    const room = Math.min(most, this.#limits.listedAtOnce * 2 - this.#held);
    try {
      return room > 0 ? await this.#trees[side].list(directory, room) : undefined;
    } catch (error) {
      if (!isSandkeepError(error)) throw error;
      // A program of a machine that runs may have deleted it, or replaced it.
      if (directory !== "" && (error.code === "not-found" || error.code === "conflict")) return none;
      if (directory !== "" && error.code === "invalid") return undefined;
      throw error;
    }
  }
}

const none: Map<string, Entry> = new Map();

/** undefined for a mark that says that a file is deleted */
function factsOf(entry: Entry | undefined): FileFacts | undefined {
  if (!entry || (entry.type === "character-device" && entry.major === 0 && entry.minor === 0)) return undefined;
  const { name: _, path: __, ...facts } = infoOf(entry, "");
  return { ...facts, ...(facts.target !== undefined && { target: textOf(facts.target) }) };
}

/** times and sizes of directories change with what is in them, which has changes of its own */
function isSame(before: FileFacts, after: FileFacts): boolean {
  const { type, mode, uid, gid, size, modifiedAt, target } = before;
  if (type !== after.type || mode !== after.mode || uid !== after.uid || gid !== after.gid) return false;
  if (type === "directory") return true;
  return size === after.size && modifiedAt === after.modifiedAt && target === after.target;
}

/** the names of a cursor's path */
function componentsOf(cursor: string): string[] {
  const path = Buffer.from(cursor, "base64url").toString("latin1");
  const isOurs = path.startsWith("/") && Buffer.from(path, "latin1").toString("base64url") === cursor;
  if (!isOurs) throw new SandkeepError("invalid", "Cannot continue the comparison: the cursor is not one of ours");
  return path.slice(1).split("/");
}

function bytesOf(path: string): Buffer {
  return Buffer.from(path, "latin1");
}

function textOf(path: string): string {
  return bytesOf(path).toString("utf8");
}
