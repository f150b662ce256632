/** Old sessions: which may be deleted, and what with them; counts, lists and pages stay right meanwhile. */

import { describe, expect, test } from "vitest";
import type { Owner, Sandbox, Session } from "../../../src/core/model/sandbox.ts";
import type { PageQuery, PruneQuery, Span, Store } from "../../../src/core/ports/store.ts";
import { timeline } from "../../../src/core/sessions/timeline.ts";
import { randomFrom } from "../../harness/random.ts";
import {
  at,
  closedAtEnd,
  commandOf,
  driveOf,
  freshStore,
  newOwner,
  newSandbox,
  noon,
  type Pair,
  type StoreHost,
  sandboxOf,
  sessionOf,
  shortRun,
  snapshotOf,
  walk,
} from "./host.ts";
import { isIn } from "./spans.ts";

/** a moment late enough that everything is old */
const later = noon + 1_000_000;
const everything = { endedBefore: later, settledBefore: later, limit: 100 };

/** a deleted sandbox whose only session is over and counted in its totals */
async function ended(store: Store, owner: Owner, fields: Partial<Sandbox> = {}): Promise<Pair> {
  const { sandbox, session } = sandboxOf(owner, { state: "stopped", ...fields });
  const pair = { sandbox, session: { ...session, stoppedAt: sandbox.createdAt } };
  await store.insertSandbox(pair.sandbox, pair.session);
  await store.addTotals(session.id);
  await store.deleteSandbox(sandbox.id, sandbox.createdAt);
  return pair;
}

async function fill(store: Store, owner: Owner, times: number[], fields: Partial<Sandbox> = {}): Promise<Session[]> {
  const sessions: Session[] = [];
  for (let i = 0; i < times.length; i += 50) {
    const some = times.slice(i, i + 50).map((createdAt) => ended(store, owner, { ...fields, createdAt }));
    sessions.push(...(await Promise.all(some)).map(({ session }) => session));
  }
  return sessions;
}

async function prunable(store: Store, query: Omit<PruneQuery, "after">): Promise<string[]> {
  const ids: string[] = [];
  for (let after: number | undefined; ; ) {
    const page = await store.prunableSessions({ ...query, after });
    ids.push(...page.sessions.map(({ id }) => id));
    if (page.next === undefined) return ids;
    after = page.next;
  }
}

export function pruningSuite(host: () => StoreHost): void {
  describe("old sessions", () => {
    test("are deleted with their commands, tags, deleted snapshots and deleted sandbox", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      const { projectId } = owner;
      const pair = await ended(store, owner, { tags: { a: 1, nested: { b: ["c"] } } });
      const { sandbox, session } = pair;
      const command = commandOf(session, { endedAt: noon, exitCode: 0 });
      await store.insertCommand(command);
      const snapshot = snapshotOf(pair, { state: "deleted" });
      await store.insertSnapshot(snapshot);
      const young = (await fill(store, owner, [later]))[0];

      const { sessions } = await store.prunableSessions({ projectId, ...everything });
      expect(sessions).toEqual([{ id: session.id, createdAt: noon, runtimeSnapshots: [snapshot.runtimeId] }]);
      expect(await store.pruneSessions([session.id])).toBe(1);

      expect(await store.getSession(session.id)).toBeUndefined();
      expect(await store.getCommand(command.id)).toBeUndefined();
      expect(await store.getSnapshot(snapshot.id)).toBeUndefined();
      expect(await store.getSandbox(sandbox.id)).toBeUndefined();
      expect(await store.countSessions({ projectId })).toBe(1);
      expect(await store.countSnapshots({ projectId })).toBe(0);
      const tagged = await store.listSessions({ projectId, contains: { a: 1 }, limit: 9, order: "asc" });
      expect(tagged.items).toEqual([]);
      expect(await store.getSession(young?.id ?? "")).toBeDefined();
      expect(await store.pruneSessions([session.id])).toBe(0);
    });

    test("are those that ended before a time, or are beyond a place in the list", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      const { projectId } = owner;
      const sessions = await fill(store, owner, [noon, noon + 1, noon + 2, noon + 3, noon + 4]);
      const ids = sessions.map(({ id }) => id);
      const query = { projectId, settledBefore: later, limit: 100 };
      expect(await prunable(store, { ...query, endedBefore: noon + 2 })).toEqual(ids.slice(0, 2));
      const upTo = await store.sessionBehind(projectId, 2);
      expect(upTo).toEqual({ at: noon + 2, id: ids[2] });
      expect(await prunable(store, { ...query, upTo })).toEqual(ids.slice(0, 3));
      expect(await prunable(store, { ...query, upTo, limit: 1 })).toEqual(ids.slice(0, 3));
      expect(await prunable(store, { ...query, upTo, settledBefore: noon + 1 })).toEqual(ids.slice(0, 1));
      expect(await prunable(store, query)).toEqual([]);
      expect(await store.sessionBehind(projectId, 5)).toBeUndefined();
    });

    test("stay while another row needs them", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      const { projectId } = owner;
      const live = await newSandbox(store, { owner, state: "running" });
      // Not counted in its totals yet.
      await newSandbox(store, { owner, state: "failed", createdAt: noon + 1 });
      // The newest session of an existing sandbox, and an older one.
      const { sandbox, session: older } = await newSandbox(store, { owner, state: "stopped", createdAt: noon + 2 });
      const newest = sessionOf(sandbox, { state: "stopped", createdAt: noon + 3, stoppedAt: noon + 3 });
      await store.insertSession(newest, older.id);
      for (const { id } of [older, newest]) await store.addTotals(id);
      const withSnapshot = await ended(store, owner, { createdAt: noon + 4 });
      await store.insertSnapshot(snapshotOf(withSnapshot));
      // A sandbox that resumes from its snapshot, though that is deleted.
      const withOrigin = await ended(store, owner, { createdAt: noon + 5 });
      const origin = snapshotOf(withOrigin);
      await store.insertSnapshot(origin);
      await store.updateSandbox(live.sandbox.id, { currentSnapshotId: origin.id });
      await store.updateSnapshot(origin.id, { state: "deleted" });
      const withCommand = await ended(store, owner, { createdAt: noon + 6 });
      await store.insertCommand(commandOf(withCommand.session));
      const withDrive = await ended(store, owner, { createdAt: noon + 7 });
      const drive = driveOf(owner);
      await store.insertDrive(drive);
      await store.attachDrive(drive.id, withDrive.session.id, "name", noon);
      const recently = await ended(store, owner, { createdAt: noon + 8 });

      const query = { projectId, ...everything, settledBefore: noon + 8 };
      expect(await prunable(store, query)).toEqual([older.id]);
      const all = await store.listSessions({ projectId, limit: 50, order: "asc" });
      expect(all.items).toHaveLength(10 - 1);
      expect(await store.pruneSessions([older.id])).toBe(1);
      // The store itself refuses sessions that are still needed.
      expect(await store.pruneSessions([live.session.id, newest.id, withSnapshot.session.id])).toBe(0);
      expect(await store.getSession(recently.session.id)).toBeDefined();

      await store.updateSandbox(live.sandbox.id, { currentSnapshotId: undefined });
      await store.detachDrives(withDrive.session.id, noon);
      expect(await prunable(store, query)).toEqual([withOrigin.session.id, withDrive.session.id]);
    });

    test("are deleted whatever their number of commands, tags and snapshots", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      const { projectId } = owner;
      const tags = Object.fromEntries(Array.from({ length: 130 }, (_, i) => [`key ${i}`, i]));
      const pair = await ended(store, owner, { tags });
      for (let i = 0; i < 120; i++) {
        await store.insertCommand(commandOf(pair.session, { endedAt: noon, exitCode: 0 }));
        await store.insertSnapshot(snapshotOf(pair, { state: "deleted", createdAt: noon + (i % 7) }));
      }
      expect(await store.pruneSessions(await prunable(store, { projectId, ...everything }))).toBe(1);
      expect(await store.countSnapshots({ projectId })).toBe(0);
      expect(await store.listCommands(pair.session.id)).toEqual([]);
      const found = await store.listSessions({ projectId, contains: { "key 129": 129 }, limit: 9, order: "asc" });
      expect(found.items).toEqual([]);
    });

    test("leave every count exact, for callers that counted before, and for late rows", async () => {
      const open = await host().fresh();
      const [store, other] = [closedAtEnd(await open()), closedAtEnd(await open())];
      const owner = await newOwner(store);
      const { projectId } = owner;
      // A crowded millisecond, and a few in each of the others.
      const times = Array.from({ length: 4 * shortRun }, (_, i) =>
        i % 3 === 0 ? noon + 400 : noon + ((i * 11) % 1000),
      );
      let left = await fill(store, owner, times);
      const spans = [noon - 1, noon, noon + 100, noon + 399, noon + 400, noon + 401, noon + 999].flatMap((time) => [
        { after: { at: time } },
        { before: { at: time } },
        { after: { at: noon + 50 }, before: { at: time } },
      ]);
      const check = async () => {
        for (const counter of [other, store])
          for (const span of [{}, ...spans])
            expect(await counter.countSessions({ projectId, ...span }), JSON.stringify(span)).toBe(
              left.filter((one) => isIn(one, span)).length,
            );
      };
      const prune = async (endedBefore: number) => {
        for (;;) {
          const ids = await prunable(store, { projectId, endedBefore, settledBefore: later, limit: 200 });
          if (ids.length === 0) return;
          for (let i = 0; i < ids.length; i += 100) await store.pruneSessions(ids.slice(i, i + 100));
          left = left.filter(({ id }) => !ids.includes(id));
        }
      };
      await check();
      for (const endedBefore of [noon + 300, noon + 401, noon + 990]) {
        await prune(endedBefore);
        expect(left.every(({ createdAt }) => createdAt >= endedBefore)).toBe(true);
        await check();
        await store.compactCounts(projectId);
        await check();
        left.push(...(await fill(store, owner, [noon - 5, noon + 10, noon + 400, noon + 2000])));
        await check();
      }
      expect((await store.sessionBehind(projectId, left.length - 1))?.at).toBe(noon - 5);
    });

    test("leave exact counts where runs that have become short are joined", async () => {
      const store = await freshStore(host());
      const owner = await newOwner(store);
      const { projectId } = owner;
      const times = Array.from({ length: 3 * shortRun + 30 }, (_, i) => noon + i);
      const all = await fill(store, owner, times);
      expect(await store.countSessions({ projectId })).toBe(all.length);
      const gone = all.filter((_, i) => i % 4 > 0).map(({ id }) => id);
      for (let i = 0; i < gone.length; i += 100) await store.pruneSessions(gone.slice(i, i + 100));
      await store.compactCounts(projectId);
      const left = all.filter((_, i) => i % 4 === 0);
      for (const span of [{}, { after: { at: noon + 150 } }, { before: { at: noon + 320 } }])
        expect(await store.countSessions({ projectId, ...span }), JSON.stringify(span)).toBe(
          left.filter((one) => isIn(one, span)).length,
        );
    });

    test("leave counts and totals of pages that match the rows, after random changes", async () => {
      const store = await freshStore(host());
      const owner = await newOwner(store);
      const { projectId } = owner;
      const random = randomFrom(10);
      const whole = (below: number) => Math.floor(random() * below);
      const moment = () => noon + whole(random() < 0.5 ? 5 : 300);
      const insert = async (many: number) => {
        const sessions = await fill(store, owner, Array.from({ length: many }, moment));
        for (const session of sessions.filter(() => random() < 0.1)) {
          const sandbox = await store.getSandbox(session.sandboxId);
          const { createdAt } = session;
          if (sandbox) await store.insertSnapshot(snapshotOf({ sandbox, session }, { createdAt, state: "deleted" }));
        }
      };
      const source = {
        list: (query: PageQuery & Span) => store.listSessions({ ...query, projectId }),
        count: (span: Span) => store.countSessions({ ...span, projectId }),
      };
      // More rows than a run, and pages that were read before any of them was deleted.
      await insert(2 * shortRun + 10);
      const places = [];
      for (let page = await timeline(source, { limit: 20 }); page.older; ) {
        places.push(page.older);
        page = await timeline(source, { limit: 20, until: page.older });
      }
      for (let round = 0; round < 12; round++) {
        const query = { projectId, endedBefore: moment(), settledBefore: later, limit: 12 };
        const { sessions } = await store.prunableSessions(query);
        await store.pruneSessions(sessions.map(({ id }) => id).filter(() => random() < 0.7));
        await insert(whole(20));
        if (random() < 0.3) await store.compactCounts(projectId);
        const all = { projectId, order: "asc", limit: 5000 } as const;
        const sessionsLeft = (await store.listSessions(all)).items;
        const snapshotsLeft = (await store.listSnapshots(all)).items;
        for (const span of [{}, { after: { at: moment() } }, { before: { at: moment() } }]) {
          const within = (one: { id: string; createdAt: number }) => isIn(one, span);
          expect(await store.countSessions({ projectId, ...span })).toBe(sessionsLeft.filter(within).length);
          expect(await store.countSnapshots({ projectId, ...span })).toBe(snapshotsLeft.filter(within).length);
        }
        const place = places[whole(places.length)];
        for (const bound of [{ since: place }, { until: place }])
          expect((await timeline(source, { limit: 10, ...bound })).total).toBe(sessionsLeft.length);
      }
    });

    test("keep counts exact while others insert, count and compact", async () => {
      const open = await host().fresh();
      const [store, other] = [closedAtEnd(await open()), closedAtEnd(await open())];
      const owner = await newOwner(store);
      const { projectId } = owner;
      await fill(
        store,
        owner,
        Array.from({ length: 3 * shortRun + 30 }, (_, i) => noon + i),
      );
      const ids = await prunable(store, { projectId, ...everything, endedBefore: noon + 2 * shortRun + 20 });
      const work = Array.from({ length: 60 }, (_, i) => {
        const place = i % 2 ? store : other;
        if (i % 4 === 0) return ended(place, owner, { createdAt: noon + i * 4 });
        if (i % 4 === 1) return place.countSessions({ projectId });
        if (i % 12 === 2) return place.compactCounts(projectId);
        return place.pruneSessions(ids.splice(0, 8));
      });
      await Promise.all(work);
      const wanted = { projectId, after: { at: noon + shortRun } };
      const listed = await store.listSessions({ ...wanted, order: "asc", limit: 5000 });
      expect(await other.countSessions(wanted)).toBe(listed.items.length);
      const all = await store.listSessions({ projectId, order: "asc", limit: 5000 });
      expect(await store.countSessions({ projectId })).toBe(all.items.length);
    });

    test.for(["asc", "desc"] as const)("leave later pages unchanged for a reader, %s", async (order) => {
      const { store } = host();
      const owner = await newOwner(store);
      const { projectId } = owner;
      const all = await fill(
        store,
        owner,
        Array.from({ length: 60 }, (_, i) => noon + Math.floor(i / 4)),
        { tags: { a: 1 } },
      );
      const ids = await prunable(store, { projectId, ...everything, endedBefore: noon + 10 });
      const gone = new Set(ids);
      const stay = all.map(({ id }) => id).filter((id) => !gone.has(id));
      for (const contains of [{}, { a: 1 }]) {
        const read = await walk(
          (cursor) => store.listSessions({ projectId, contains, order, limit: 7, ...at(cursor) }),
          async () => void (await store.pruneSessions(ids.splice(0, 8))),
        );
        const seen = read.map(({ id }) => id);
        expect(new Set(seen).size).toBe(seen.length);
        expect(seen.filter((id) => !gone.has(id)).sort()).toEqual(stay.toSorted());
      }
    });

    test("leave places within a millisecond unchanged", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      const { projectId } = owner;
      const sessions = await fill(
        store,
        owner,
        Array.from({ length: 24 }, (_, i) => noon + Math.floor(i / 8)),
      );
      // One row in the middle of its millisecond stays, and with it those before it.
      const crowd = sessions.filter(({ createdAt }) => createdAt === noon + 1).map(({ id }) => id);
      const middle = crowd.toSorted()[4] ?? "";
      await store.insertCommand(commandOf({ ...sessions[0], id: middle } as Session));
      const ids = await prunable(store, { projectId, ...everything, limit: 5 });
      expect(ids).not.toContain(middle);
      expect(ids.filter((id) => crowd.includes(id))).toEqual(crowd.toSorted().slice(5).toReversed());
      const source = {
        list: (query: object) => store.listSessions({ ...query, projectId } as Parameters<Store["listSessions"]>[0]),
        count: (span: object) => store.countSessions({ ...span, projectId }),
      };
      const seen: string[] = [];
      let page = await timeline(source, { limit: 3 });
      for (;;) {
        seen.push(...page.items.map(({ id }) => id));
        for (const id of ids.splice(0, 4)) await store.pruneSessions([id]);
        if (!page.older) break;
        page = await timeline(source, { limit: 3, until: page.older });
      }
      expect(new Set(seen).size).toBe(seen.length);
      const left = (await store.listSessions({ projectId, order: "asc", limit: 50 })).items.map(({ id }) => id);
      for (const id of left) expect(seen).toContain(id);
    });
  });
}
