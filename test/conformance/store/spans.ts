/** Parts of the lists by creation: strictly newer than one moment and older than another, also within a millisecond. */

import { describe, expect, test } from "vitest";
import type { Moment, Page, PageQuery, Span, Store } from "../../../src/core/ports/store.ts";
import { at, newOwner, newSandbox, noon, type StoreHost, snapshotOf, walk } from "./host.ts";

interface Listed {
  id: string;
  createdAt: number;
}

interface SpanHost {
  all: Listed[];
  list(query: PageQuery & Span): Promise<Page<Listed>>;
}

/** thirty rows in three milliseconds, in the order of the list */
const fills: Record<string, (store: Store) => Promise<SpanHost>> = {
  async sessions(store) {
    const owner = await newOwner(store);
    const { projectId } = owner;
    const pairs = [];
    for (let i = 0; i < 30; i++) pairs.push(await newSandbox(store, { owner, createdAt: noon + (i % 3) }));
    await newSandbox(store, { createdAt: noon + 1 });
    return {
      all: inOrder(pairs.map(({ session }) => session)),
      list: (query) => store.listSessions({ ...query, projectId }),
    };
  },
  async snapshots(store) {
    const pair = await newSandbox(store);
    const { projectId } = pair.sandbox;
    const snapshots = Array.from({ length: 30 }, (_, i) => snapshotOf(pair, { createdAt: noon + (i % 3) }));
    for (const snapshot of snapshots) await store.insertSnapshot(snapshot);
    return { all: inOrder(snapshots), list: (query) => store.listSnapshots({ ...query, projectId }) };
  },
};

export function spansSuite(host: () => StoreHost): void {
  describe.for(Object.entries(fills))("a part of the list of %s", ([, fill]) => {
    test("is strictly between its moments, in either order", async () => {
      const { all, list } = await fill(host().store);
      const moments: (Moment | undefined)[] = [
        undefined,
        ...[noon - 1, noon, noon + 1, noon + 2, noon + 3].map((time) => ({ at: time })),
        ...all.filter((_, i) => i % 7 === 0).map(momentOf),
        { at: noon + 1, id: "" },
        { at: noon + 1, id: "~" },
      ];
      for (const after of moments)
        for (const before of moments) {
          const span = { ...(after && { after }), ...(before && { before }) };
          const expected = all.filter((one) => isIn(one, span)).map(({ id }) => id);
          const found = async (order: "asc" | "desc", limit: number) =>
            idsOf(await walk((cursor) => list({ ...span, order, limit, ...at(cursor) })));
          expect(await found("asc", 50), JSON.stringify(span)).toEqual(expected);
          expect(await found("desc", 4), JSON.stringify(span)).toEqual(expected.toReversed());
        }
    });

    test.for(["asc", "desc"] as const)("walked %s from moment to moment has each once", async (order) => {
      const { all, list } = await fill(host().store);
      const walked: Listed[] = [];
      for (;;) {
        const last = walked.at(-1);
        const here = last && (order === "asc" ? { after: momentOf(last) } : { before: momentOf(last) });
        const { items } = await list({ ...here, order, limit: 4 });
        if (items.length === 0) break;
        walked.push(...items);
      }
      expect(idsOf(walked)).toEqual(idsOf(order === "asc" ? all : all.toReversed()));
    });

    test("has its own cursors", async () => {
      const { list } = await fill(host().store);
      const query = { order: "desc", limit: 3 } as const;
      const { next } = await list({ ...query, before: { at: noon + 2 } });
      for (const other of [{}, { before: { at: noon + 1 } }, { after: { at: noon + 2 } }])
        await expect(list({ ...query, ...other, ...at(next) })).rejects.toMatchObject({ code: "invalid" });
    });
  });
}

export function isIn(one: Listed, { after, before }: Span): boolean {
  return (!after || isBeyond(one, after, 1)) && (!before || isBeyond(one, before, -1));
}

/** whether a row is newer (1) or older (-1) than a moment */
function isBeyond(one: Listed, moment: Moment, direction: 1 | -1): boolean {
  if (one.createdAt !== moment.at) return Math.sign(one.createdAt - moment.at) === direction;
  return moment.id !== undefined && compare(one.id, moment.id) === direction;
}

export function momentOf({ id, createdAt }: Listed): Moment {
  return { at: createdAt, id };
}

function inOrder(things: Listed[]): Listed[] {
  return things.toSorted((a, b) => a.createdAt - b.createdAt || compare(a.id, b.id));
}

function compare(a: string, b: string): number {
  return a === b ? 0 : a < b ? -1 : 1;
}

function idsOf(things: { id: string }[]): string[] {
  return things.map(({ id }) => id);
}
