/** Acknowledged data outlives a program; and two programs on one database do not corrupt each other's data. */

import { describe, expect, test } from "vitest";
import {
  closedAtEnd,
  commandOf,
  driveOf,
  newOwner,
  newSandbox,
  noon,
  type StoreHost,
  sandboxOf,
  sessionOf,
  snapshotOf,
} from "./host.ts";

export function durabilitySuite(host: () => StoreHost): void {
  describe("a store that is opened again", () => {
    test("has all its data", async () => {
      const open = await host().fresh();
      const before = await open();
      const owner = await newOwner(before);
      const pair = await newSandbox(before, { owner, tags: { a: "b" }, routes: [{ port: 1, subdomain: "sb-kept" }] });
      const [command, snapshot, drive] = [commandOf(pair.session), snapshotOf(pair), driveOf(owner)];
      await before.insertCommand(command);
      await before.insertSnapshot(snapshot);
      await before.insertDrive(drive);
      await before.moveSession(pair.session.id, ["pending"], "running", { expiresAt: noon + 5, updatedAt: noon + 1 });
      await before.beginIdempotent("key", noon);
      const query = { ...owner, limit: 1, order: "desc", sortBy: "createdAt" } as const;
      await newSandbox(before, { owner });
      const { next = "" } = await before.listSandboxes(query);
      await before.close();

      const after = closedAtEnd(await open());
      expect(await after.findSandbox(owner.projectId, pair.sandbox.name)).toStrictEqual({
        ...pair.sandbox,
        state: "running",
        stateChangedAt: noon + 1,
      });
      expect((await after.findSandboxByRoute("sb-kept"))?.id).toBe(pair.sandbox.id);
      expect((await after.listSandboxes({ ...query, tags: { a: "b" } })).items).toHaveLength(1);
      expect((await after.dueSessions(noon + 5, 10)).map(({ id }) => id)).toEqual([pair.session.id]);
      expect(await after.getCommand(command.id)).toStrictEqual(command);
      expect(await after.getSnapshot(snapshot.id)).toStrictEqual(snapshot);
      expect(await after.findDrive(owner.projectId, drive.name)).toStrictEqual(drive);
      expect(await after.beginIdempotent("key", noon)).toBe("running");
      expect((await after.listSandboxes({ ...query, cursor: next })).items).toHaveLength(1);
    });

    test("may be opened while it is open", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      await store.open();
      expect(await store.listProjects(owner.teamId)).toHaveLength(1);
    });
  });

  describe("two programs on one database", () => {
    test("cannot both claim it: the second can only after the first closes", async () => {
      const open = await host().fresh();
      const [one, other] = [await open(), closedAtEnd(await open())];
      expect(await one.claim()).toBe(true);
      expect(await one.claim()).toBe(true);
      expect(await other.claim()).toBe(false);
      await newOwner(other);
      await one.close();
      expect(await other.claim()).toBe(true);
    });

    test("may create it at the same moment", async () => {
      const open = await host().empty();
      const stores = await Promise.all([open(), open(), open(), open()]);
      for (const store of stores) closedAtEnd(store);
      const [first, second] = stores;
      const owner = first && (await newOwner(first));
      expect(await second?.listProjects(owner?.teamId ?? "")).toHaveLength(1);
    });

    test("cannot both create a name, both resume, or both move a session", async () => {
      const open = await host().fresh();
      const [one, other] = [closedAtEnd(await open()), closedAtEnd(await open())];
      const owner = await newOwner(one);
      for (let round = 0; round < 20; round++) {
        const name = `wanted-${round}`;
        const [mine, theirs] = [sandboxOf(owner, { name }), sandboxOf(owner, { name })];
        const created = await Promise.allSettled([
          one.insertSandbox(mine.sandbox, mine.session),
          other.insertSandbox(theirs.sandbox, theirs.session),
        ]);
        expect(created.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
        const sandbox = await one.findSandbox(owner.projectId, name);
        if (!sandbox) throw new Error("Nobody created it");
        const moved = await Promise.all(
          [one, other].map((store) => store.moveSession(sandbox.currentSessionId, ["pending"], "stopped", {})),
        );
        expect(moved.filter(Boolean)).toHaveLength(1);
        const resumed = await Promise.all(
          [one, other].map((store) => store.insertSession(sessionOf(sandbox), sandbox.currentSessionId)),
        );
        expect(resumed.toSorted()).toEqual([false, true]);
      }
    });
  });
}
