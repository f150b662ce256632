/** Counts: exact for every part of a list, whatever its length, and whatever is inserted meanwhile. */

import { describe, expect, test } from "vitest";
import type { Session, Snapshot } from "../../../src/core/model/sandbox.ts";
import type { Span, Store } from "../../../src/core/ports/store.ts";
import {
  closedAtEnd,
  freshStore,
  newOwner,
  newSandbox,
  noon,
  type Pair,
  type StoreHost,
  shortRun,
  snapshotOf,
} from "./host.ts";
import { isIn, momentOf } from "./spans.ts";

/** so many that the store does not count them one by one */
const many = 2 * shortRun + 50;

async function insertSnapshots(store: Store, pair: Pair, times: number[]): Promise<Snapshot[]> {
  const snapshots = times.map((createdAt) => snapshotOf(pair, { createdAt }));
  for (let i = 0; i < snapshots.length; i += 50)
    await Promise.all(snapshots.slice(i, i + 50).map((snapshot) => store.insertSnapshot(snapshot)));
  return snapshots;
}

export function countsSuite(host: () => StoreHost): void {
  describe("counting", () => {
    test("an empty list gives 0, and every session counts as one, deleted sandboxes' too", async () => {
      const { store } = host();
      const { teamId, projectId } = await newOwner(store);
      expect(await store.countSessions({ projectId })).toBe(0);
      expect(await store.countSnapshots({ projectId, after: { at: 1 }, before: { at: 2, id: "x" } })).toBe(0);
      const { sandbox } = await newSandbox(store, { owner: { teamId, projectId } });
      await newSandbox(store, { owner: { teamId, projectId }, createdAt: noon + 1 });
      await newSandbox(store);
      await store.deleteSandbox(sandbox.id, noon);
      expect(await store.countSessions({ projectId })).toBe(2);
      expect(await store.countSessions({ projectId, after: { at: noon } })).toBe(1);
      expect(await store.countSnapshots({ projectId })).toBe(0);
    });

    test("is exact for every part, while rows come in any order", async () => {
      const store = await freshStore(host());
      const pair = await newSandbox(store);
      const { projectId } = pair.sandbox;
      const all: Snapshot[] = [];
      const check = async () => {
        const moments = [
          ...[noon - 1, noon, noon + 1, noon + 33, noon + 50, noon + 99, noon + 500].map((time) => ({ at: time })),
          ...all.filter((_, i) => i % 50 === 3).map(momentOf),
        ];
        const spans: Span[] = [
          {},
          ...moments.map((after) => ({ after })),
          ...moments.map((before) => ({ before })),
          ...moments.flatMap((after) => moments.map((before) => ({ after, before }))),
        ];
        for (const span of spans)
          expect(await store.countSnapshots({ projectId, ...span }), JSON.stringify(span)).toBe(
            all.filter((one) => isIn(one, span)).length,
          );
      };
      const insert = async (count: number, time: (i: number) => number) => {
        all.push(
          ...(await insertSnapshots(
            store,
            pair,
            Array.from({ length: count }, (_, i) => time(i)),
          )),
        );
        await check();
      };
      await insert(10, (i) => noon + i);
      // One millisecond has more rows than a run, and the others have few.
      await insert(many, (i) => (i % 2 === 0 ? noon + 50 : noon + (i % 100)));
      // Late rows: among the others, before them all, and in the crowded millisecond.
      await insert(30, (i) => [noon + 33, noon - 1 - i, noon + 50][i % 3] ?? noon);
      // And rows in order again.
      await insert(shortRun + 10, (i) => noon + 100 + Math.floor(i / 3));
    });

    test("of sessions matches the list", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      const { projectId } = owner;
      const sessions: Session[] = [];
      for (let i = 0; i < 1300; i += 100) {
        const pairs = Array.from({ length: 100 }, (_, j) => newSandbox(store, { owner, createdAt: noon + i + j }));
        sessions.push(...(await Promise.all(pairs)).map(({ session }) => session));
      }
      const spans: Span[] = [
        {},
        { after: { at: noon + 7 } },
        { before: { at: noon + 1200 } },
        { after: { at: noon + 1250 } },
      ];
      for (const span of spans)
        expect(await store.countSessions({ projectId, ...span })).toBe(
          sessions.filter((one) => isIn(one, span)).length,
        );
      await newSandbox(store, { owner, createdAt: noon + 500 });
      expect(await store.countSessions({ projectId, before: { at: noon + 1200 } })).toBe(1201);
    });

    test("is exact for a caller that counted before others extended the list", async () => {
      const open = await host().fresh();
      const [store, other] = [closedAtEnd(await open()), closedAtEnd(await open())];
      const pair = await newSandbox(store);
      const { projectId } = pair.sandbox;
      const all: Snapshot[] = [];
      const times = (count: number, first: number) => Array.from({ length: count }, (_, i) => first + i);
      for (const [place, first] of [
        [store, noon],
        [other, noon + many],
        [other, noon + 2 * many],
        // late rows
        [store, noon + shortRun],
      ] as const) {
        all.push(...(await insertSnapshots(place, pair, times(many, first))));
        for (const counter of [other, store])
          for (const span of [{}, { after: { at: noon + shortRun + 70 } }, { before: { at: noon + many + 1 } }])
            expect(await counter.countSnapshots({ projectId, ...span }), JSON.stringify(span)).toBe(
              all.filter((one) => isIn(one, span)).length,
            );
      }
    });

    test("misses nothing and counts nothing twice while others insert", async () => {
      const open = await host().fresh();
      const [store, other] = [closedAtEnd(await open()), closedAtEnd(await open())];
      const first = shortRun + 10;
      for (let round = 0; round < 4; round++) {
        const pair = await newSandbox(store);
        const { projectId } = pair.sandbox;
        await insertSnapshots(
          store,
          pair,
          Array.from({ length: first }, (_, i) => noon + i),
        );
        let [begun, done] = [first, first];
        const insert = async (place: Store, createdAt: number) => {
          begun++;
          await place.insertSnapshot(snapshotOf(pair, { createdAt }));
          done++;
        };
        const count = async (place: Store) => {
          const least = done;
          const counted = await place.countSnapshots({ projectId });
          expect(counted).toBeGreaterThanOrEqual(least);
          expect(counted).toBeLessThanOrEqual(begun);
        };
        // Old and new rows, while the list is being divided into runs for the first time.
        const work = Array.from({ length: 60 }, (_, i) =>
          i % 6 === 2
            ? count(i % 4 ? store : other)
            : insert(i % 2 ? store : other, noon + (i % 3 ? i : 5 * shortRun + i)),
        );
        await Promise.all(work);
        const wanted = { projectId, before: { at: noon + shortRun } };
        const listed = await store.listSnapshots({ ...wanted, order: "asc", limit: 5000 });
        expect(await other.countSnapshots({ projectId })).toBe(first + 50);
        expect(await other.countSnapshots(wanted)).toBe(listed.items.length);
      }
    });
  });
}
