/** The difference of two file trees: those of snapshots, and those of machines that run. */

import type { FileInfo } from "./runtime.ts";

export interface TreeDiffs {
  /**
   * what has to change in the first tree to get the second, in the order of paths. A page costs a bounded amount of work,
   * also if nothing differs; `next` continues it. Throws `not-found` if a tree is gone
   */
  compare(from: TreePlace, to: TreePlace, options: DiffOptions): Promise<TreeDiff>;
}

/** the id of a snapshot in the runtime, or of a machine that runs */
export type TreePlace = { snapshot: string } | { machine: string };

export interface DiffOptions {
  /** most changes of the page */
  limit: number;
  /** `next` of the page before */
  after?: string | undefined;
  signal?: AbortSignal | undefined;
}

export interface TreeDiff {
  changes: TreeChange[];
  next?: string;
  /** whether directories with too many files, or with paths that are too long, were left out */
  truncated: boolean;
}

export type FileFacts = Pick<FileInfo, "type" | "size" | "mode" | "uid" | "gid" | "modifiedAt" | "target">;

/** `before` is unset for a file of the image whose own facts the store does not have */
export interface TreeChange {
  path: string;
  change: "added" | "changed" | "removed";
  before?: FileFacts;
  after?: FileFacts;
}
