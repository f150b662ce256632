/** Snapshots: their record, their tombstones, their tree, and which have expired. */

import { describe, expect, test } from "vitest";
import type { Snapshot } from "../../../src/core/model/sandbox.ts";
import { at, freshStore, newSandbox, noon, type StoreHost, sandboxOf, snapshotOf } from "./host.ts";

const idsOf = (snapshots: Snapshot[]) => snapshots.map(({ id }) => id);

export function snapshotsSuite(host: () => StoreHost): void {
  describe("snapshots", () => {
    test("every field of a snapshot comes back as it was", async () => {
      const { store } = host();
      const pair = await newSandbox(store);
      const plain = snapshotOf(pair);
      const full = snapshotOf(pair, {
        name: "näme",
        parentId: plain.id,
        expiration: 5,
        expiresAt: noon + 5,
        method: "automatic",
      });
      for (const snapshot of [plain, full]) {
        await store.insertSnapshot(snapshot);
        expect(await store.getSnapshot(snapshot.id)).toStrictEqual(snapshot);
      }
      expect(await store.getSnapshot("snap_none")).toBeUndefined();
    });

    test("a time after the last number that can be read back is that number", async () => {
      const { store } = host();
      const snapshot = snapshotOf(await newSandbox(store), { expiresAt: Number.MAX_SAFE_INTEGER + noon });
      await store.insertSnapshot(snapshot);
      expect((await store.getSnapshot(snapshot.id))?.expiresAt).toBe(Number.MAX_SAFE_INTEGER);
      const changed = await store.updateSnapshot(snapshot.id, { expiresAt: 2 * Number.MAX_SAFE_INTEGER });
      expect(changed?.expiresAt).toBe(Number.MAX_SAFE_INTEGER);
    });

    test("the sizes of kept snapshots are summed, of a team and of the sandboxes of one key", async () => {
      const { store } = host();
      expect(await store.snapshotBytes({ teamId: "team_none" })).toBe(0);
      const pair = await newSandbox(store, { madeBy: { keyId: "key_a_1", wire: "x" } });
      const { teamId, projectId } = pair.sandbox;
      const other = await newSandbox(store, { owner: { teamId, projectId }, madeBy: { keyId: "key_aB1" } });
      await store.insertSnapshot(snapshotOf(pair, { sizeBytes: 3 }));
      await store.insertSnapshot(snapshotOf(pair, { sizeBytes: 4, state: "deleted" }));
      await store.insertSnapshot(snapshotOf(other, { sizeBytes: 10 }));
      expect(await store.snapshotBytes({ teamId })).toBe(13);
      expect(await store.snapshotBytes({ teamId, keyId: "key_a_1" })).toBe(3);
      expect(await store.snapshotBytes({ teamId, keyId: "key_aB1" })).toBe(10);
    });

    test("an update replaces the given fields and clears those given as undefined", async () => {
      const { store } = host();
      const snapshot = snapshotOf(await newSandbox(store), { expiration: 5, expiresAt: noon + 5 });
      await store.insertSnapshot(snapshot);
      const used = await store.updateSnapshot(snapshot.id, { lastUsedAt: noon + 9, expiresAt: undefined });
      const { expiresAt, ...rest } = snapshot;
      expect(expiresAt).toBeDefined();
      expect(used).toStrictEqual({ ...rest, lastUsedAt: noon + 9 });
      expect(await store.getSnapshot(snapshot.id)).toStrictEqual(used);
      expect(await store.updateSnapshot("snap_none", { lastUsedAt: 1 })).toBeUndefined();
    });

    test("a sandbox's snapshots are newest first, without deleted ones; lists show tombstones by default", async () => {
      const { store } = host();
      const pair = await newSandbox(store);
      const snapshots = [0, 1, 2].map((age) => snapshotOf(pair, { createdAt: noon + age }));
      for (const snapshot of snapshots) await store.insertSnapshot(snapshot);
      const [oldest = "", middle = "", newest = ""] = idsOf(snapshots);
      await store.updateSnapshot(middle, { state: "deleted" });
      expect(idsOf(await store.snapshotsOf(pair.sandbox.id))).toEqual([newest, oldest]);
      const query = { projectId: pair.sandbox.projectId, limit: 9, order: "asc" } as const;
      expect(idsOf((await store.listSnapshots(query)).items)).toEqual([oldest, middle, newest]);
      const first = await store.listSnapshots({ ...query, limit: 1, there: true });
      const next = await store.listSnapshots({ ...query, limit: 1, there: true, ...at(first.next) });
      expect([...idsOf(first.items), ...idsOf(next.items)]).toEqual([oldest, newest]);
    });

    test("a list may be of one sandbox, of those with a name, or of those with a given name", async () => {
      const { store } = host();
      const pair = await newSandbox(store);
      const { teamId, projectId } = pair.sandbox;
      const other = sandboxOf({ teamId, projectId });
      await store.insertSandbox(other.sandbox, other.session);
      const [plain, one, two] = [
        snapshotOf(pair),
        snapshotOf(pair, { name: "one", createdAt: noon + 1 }),
        snapshotOf(other, { name: "two", createdAt: noon + 2 }),
      ];
      for (const snapshot of [plain, one, two]) await store.insertSnapshot(snapshot);
      const listed = async (filter: object) => {
        const query = { projectId: pair.sandbox.projectId, limit: 9, order: "asc", ...filter } as const;
        return idsOf((await store.listSnapshots(query)).items);
      };
      expect(await listed({ name: true })).toEqual([one.id, two.id]);
      expect(await listed({ name: "two" })).toEqual([two.id]);
      expect(await listed({ sandboxId: pair.sandbox.id })).toEqual([plain.id, one.id]);
      expect(await listed({ sandboxId: pair.sandbox.id, name: "two" })).toEqual([]);
    });

    test("children are in order of creation, with tombstones, up to a limit", async () => {
      const { store } = host();
      const pair = await newSandbox(store);
      const parent = snapshotOf(pair);
      const children = [0, 1, 2].map((age) => snapshotOf(pair, { parentId: parent.id, createdAt: noon + age }));
      for (const snapshot of [parent, ...children.toReversed()]) await store.insertSnapshot(snapshot);
      await store.updateSnapshot(children[0]?.id ?? "", { state: "deleted" });
      expect(idsOf(await store.snapshotChildren(parent.id, 10))).toEqual(idsOf(children));
      expect(idsOf(await store.snapshotChildren(parent.id, 2))).toEqual(idsOf(children.slice(0, 2)));
      expect(await store.snapshotChildren("snap_none", 10)).toEqual([]);
    });

    test("expired ones are due unless they are deleted or live for ever", async () => {
      const store = await freshStore(host());
      const pair = await newSandbox(store);
      const [late, soon, never, deleted] = [
        snapshotOf(pair, { expiresAt: noon + 2 }),
        snapshotOf(pair, { expiresAt: noon + 1 }),
        snapshotOf(pair),
        snapshotOf(pair, { expiresAt: noon + 1, state: "deleted" }),
      ];
      for (const snapshot of [late, soon, never, deleted]) await store.insertSnapshot(snapshot);
      const due = async (now: number, limit: number) => idsOf(await store.dueSnapshots(now, limit));
      expect(await due(noon, 10)).toEqual([]);
      expect(await due(noon + 1, 10)).toEqual([soon.id]);
      expect(await due(noon + 9, 10)).toEqual([soon.id, late.id]);
      expect(await due(noon + 9, 1)).toEqual([soon.id]);
    });

    test("the runtime's ids are divided into those to keep and those deleted", async () => {
      const store = await freshStore(host());
      const pair = await newSandbox(store);
      const [kept, deleted] = [snapshotOf(pair), snapshotOf(pair, { state: "deleted" })];
      for (const snapshot of [kept, deleted]) await store.insertSnapshot(snapshot);
      expect(await store.liveRuntimeSnapshots()).toEqual([kept.runtimeId]);
      expect(await store.isDeletedSnapshot(deleted.runtimeId)).toBe(true);
      expect(await store.isDeletedSnapshot(kept.runtimeId)).toBe(false);
      expect(await store.isDeletedSnapshot("runtime-none")).toBe(false);
      expect(await store.snapshotsOfRuntime(kept.runtimeId)).toEqual([await store.getSnapshot(kept.id)]);
      expect(await store.snapshotsOfRuntime(deleted.runtimeId)).toEqual([]);
    });

    test("a snapshot is current while a sandbox that exists would boot from it", async () => {
      const { store } = host();
      const pair = await newSandbox(store);
      const snapshot = snapshotOf(pair);
      await store.insertSnapshot(snapshot);
      expect(await store.isCurrentSnapshot(snapshot.id)).toBe(false);
      expect(await store.isCurrentSnapshot("")).toBe(false);
      await store.updateSandbox(pair.sandbox.id, { currentSnapshotId: snapshot.id });
      expect(await store.isCurrentSnapshot(snapshot.id)).toBe(true);
      await store.deleteSandbox(pair.sandbox.id, noon);
      expect(await store.isCurrentSnapshot(snapshot.id)).toBe(false);
    });
  });
}
