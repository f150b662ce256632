/** Snapshots for callers: list, get, change, compare and delete them, and read their family tree. */

import type { Context } from "../context.ts";
import { SandkeepError } from "../model/errors.ts";
import type { Caller, Owner, Snapshot } from "../model/sandbox.ts";
import type { Page, SnapshotQuery, Span } from "../ports/store.ts";
import type { DiffOptions, TreeDiff } from "../ports/tree-diff.ts";
import { type Timeline, type TimelineQuery, timeline } from "../sessions/timeline.ts";
import { Diffs, type DiffTarget } from "./diffs.ts";
import type { Retention, SnapshotSettings } from "./retention.ts";

export interface TreeNode {
  snapshot: Snapshot;
  /** others with the same parent */
  siblings: Snapshot[];
  /** number of siblings, up to a limit */
  count: number;
  /** whether there are more than counted */
  more: boolean;
}

export interface Tree {
  anchor: TreeNode;
  nodes: TreeNode[];
  /** the anchor of the next page */
  next?: string;
}

const countedSiblings = 10;

export class SnapshotService {
  readonly #context: Context;
  readonly #retention: Retention;
  readonly #diffs: Diffs;

  constructor(context: Context, retention: Retention) {
    this.#context = context;
    this.#retention = retention;
    this.#diffs = new Diffs(context);
  }

  async get(caller: Caller, id: string): Promise<Snapshot> {
    const snapshot = await this.#context.store.getSnapshot(id);
    if (snapshot?.teamId !== caller.teamId) throw new SandkeepError("not-found", `Snapshot '${id}' not found.`);
    return snapshot;
  }

  async list(owner: Owner, query: Omit<SnapshotQuery, "projectId">): Promise<Page<Snapshot>> {
    return this.#context.store.listSnapshots({ ...query, projectId: owner.projectId });
  }

  /** newest first, paged by timestamps */
  async timeline({ projectId }: Owner, query: TimelineQuery): Promise<Timeline<Snapshot>> {
    const { store } = this.#context;
    const source = {
      list: (page: Omit<SnapshotQuery, "projectId">) => store.listSnapshots({ ...page, projectId }),
      count: (span: Span) => store.countSnapshots({ ...span, projectId }),
    };
    return timeline(source, query);
  }

  async change(caller: Caller, id: string, settings: SnapshotSettings): Promise<Snapshot> {
    const snapshot = await this.get(caller, id);
    if (snapshot.state !== "created") {
      throw new SandkeepError("gone", `Cannot change snapshot '${id}': it is ${snapshot.state}`, {
        about: { kind: "snapshot" },
      });
    }
    return this.#retention.change(snapshot, settings);
  }

  async delete(caller: Caller, id: string): Promise<Snapshot> {
    return this.#retention.delete(await this.get(caller, id));
  }

  /** from the anchor to its ancestors ("desc") or along its first children ("asc") */
  async tree(owner: Owner, id: string, options: { limit: number; order: "asc" | "desc" }): Promise<Tree> {
    const anchor = await this.get(owner, id);
    if (anchor.projectId !== owner.projectId) throw new SandkeepError("not-found", `Snapshot '${id}' not found.`);
    const step = options.order === "desc" ? this.#parent : this.#child;
    const nodes: TreeNode[] = [];
    let current = await step.call(this, anchor);
    while (current && nodes.length < options.limit) {
      nodes.push(await this.#node(current));
      current = await step.call(this, current);
    }
    const last = nodes.at(-1)?.snapshot.id;
    return { anchor: await this.#node(anchor), nodes, ...(current && last !== undefined && { next: last }) };
  }

  /** what has to change in the files of a snapshot to get those of the target */
  diff(owner: Owner, id: string, target: DiffTarget, options: DiffOptions): Promise<TreeDiff> {
    return this.#diffs.diff(owner, id, target, options);
  }

  async #parent(snapshot: Snapshot): Promise<Snapshot | undefined> {
    return snapshot.parentId === undefined ? undefined : this.#context.store.getSnapshot(snapshot.parentId);
  }

  async #child(snapshot: Snapshot): Promise<Snapshot | undefined> {
    return (await this.#context.store.snapshotChildren(snapshot.id, 1))[0];
  }

  async #node(snapshot: Snapshot): Promise<TreeNode> {
    const family =
      snapshot.parentId === undefined
        ? []
        : await this.#context.store.snapshotChildren(snapshot.parentId, countedSiblings + 2);
    const siblings = family.filter(({ id }) => id !== snapshot.id);
    return {
      snapshot,
      siblings: siblings.slice(0, countedSiblings),
      count: Math.min(siblings.length, countedSiblings),
      more: siblings.length > countedSiblings,
    };
  }
}
