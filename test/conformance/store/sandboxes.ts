/** Sandboxes: every field is stored, names are unique among existing ones, and a deleted one leaves no trace. */

import { describe, expect, test } from "vitest";
import type { Sandbox } from "../../../src/core/model/sandbox.ts";
import {
  freshStore,
  newOwner,
  newSandbox,
  noon,
  type StoreHost,
  sandboxOf,
  sessionOf,
  snapshotOf,
  unique,
} from "./host.ts";

/** every possible field */
function everything(): Partial<Sandbox> {
  return {
    persistent: false,
    base: { image: "node", runtime: "node24", imageName: "my-repo:v1", cwd: "/", user: "root" },
    vcpus: 0.5,
    networkPolicy: {
      mode: "custom",
      domains: [
        {
          domain: "*.example.com",
          rules: [{ match: { path: { regex: "^/é" } }, action: { kind: "set-headers", headers: { a: "sealed" } } }],
        },
      ],
      allowedCidrs: ["10.0.0.0/8"],
      deniedCidrs: [],
    },
    lifetime: "unlimited",
    networkId: "net_1",
    env: { "KEY=odd": "päth\n\u0000 \ud83c\udfd6 'quoted' \"twice\"", lone: "\ud800" },
    tags: { env: "prod", count: 1, deep: { list: [1, null, { a: true }] } },
    routes: [
      { port: 3000, subdomain: unique("sb-") },
      { port: 8080, subdomain: unique("sb-"), closed: true },
    ],
    ingress: { anyPort: true, isPrivate: true, host: "mask.example", wakes: true },
    notes: { wire: { list: ["é", null] } },
    madeBy: { keyId: "key_1", wire: "some" },
    snapshotName: "at the end",
    mounts: { "/data": { driveId: "drv_1", drive: "data", mode: "snapshot" } },
    failoverRegions: ["sfo1", "fra1"],
    snapshotExpiration: 0,
    keepLastSnapshots: { count: 3, expiration: 86_400_000, deleteEvicted: false },
    currentSnapshotId: "snap_1",
    state: "running",
    stateChangedAt: noon + 5,
    totals: { egressBytes: 2 ** 50, ingressBytes: 2, cpuMs: 3, durationMs: 4 },
    updatedAt: noon + 9,
  };
}

export function sandboxesSuite(host: () => StoreHost): void {
  describe("sandboxes", () => {
    test("every field of a sandbox and its first session comes back as it was", async () => {
      const { store } = host();
      const { sandbox, session } = await newSandbox(store, everything());
      expect(await store.getSandbox(sandbox.id)).toStrictEqual(sandbox);
      expect(await store.findSandbox(sandbox.projectId, sandbox.name)).toStrictEqual(sandbox);
      expect(await store.getSession(session.id)).toStrictEqual(session);
    });

    test("a field that a sandbox lacks is absent, rather than undefined or null", async () => {
      const { store } = host();
      const { sandbox } = await newSandbox(store);
      expect(await store.getSandbox(sandbox.id)).toStrictEqual(sandbox);
    });

    test("several are read at once, deleted ones too", async () => {
      const { store } = host();
      const [{ sandbox: one }, { sandbox: other }] = [await newSandbox(store), await newSandbox(store)];
      await store.deleteSandbox(other.id, noon);
      const read = await store.getSandboxes([one.id, other.id, one.id, "sandbox_none"]);
      expect(read.map(({ id }) => id).toSorted()).toEqual([one.id, other.id].toSorted());
      expect(await store.getSandboxes([])).toEqual([]);
    });

    test("a name in any script is found by exactly its characters", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      const names = ["Ångström", "A\u030angstro\u0308m", "砂場", "🏖️", "a%_\\b", "Name", "name", "o'clock; drop table"];
      for (const name of names) await newSandbox(store, { owner, name });
      for (const name of names) expect(await store.findSandbox(owner.projectId, name)).toMatchObject({ name });
      expect(await store.findSandbox(owner.projectId, "NAME")).toBeUndefined();
      expect(await store.findSandbox(owner.projectId, "a__\\b")).toBeUndefined();
    });

    test("text that is not Unicode is invalid, in a query and in a record", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      for (const name of ["a\0b", "\ud800"]) {
        await expect(store.findSandbox(owner.projectId, name)).rejects.toMatchObject({ code: "invalid" });
        await expect(newSandbox(store, { owner, name })).rejects.toMatchObject({ code: "invalid" });
      }
    });

    test("a name is taken within a project, and available in another", async () => {
      const { store } = host();
      const { sandbox } = await newSandbox(store);
      const again = newSandbox(store, {
        owner: { teamId: sandbox.teamId, projectId: sandbox.projectId },
        name: sandbox.name,
      });
      await expect(again).rejects.toMatchObject({ code: "exists", message: expect.stringContaining(sandbox.name) });
      const { sandbox: elsewhere } = await newSandbox(store, { name: sandbox.name });
      expect(await store.findSandbox(elsewhere.projectId, sandbox.name)).toEqual(elsewhere);
      expect(await store.findSandbox(sandbox.projectId, sandbox.name)).toEqual(sandbox);
    });

    test("of many parallel creates of one name, one succeeds, and the others leave nothing", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      const pairs = Array.from({ length: 8 }, () =>
        sandboxOf(owner, { name: "wanted", tags: { a: "b" }, routes: [{ port: 1, subdomain: unique("sb-") }] }),
      );
      const outcomes = await Promise.allSettled(pairs.map((pair) => store.insertSandbox(pair.sandbox, pair.session)));
      const winners = pairs.filter((_, index) => outcomes[index]?.status === "fulfilled");
      expect(winners).toHaveLength(1);
      const [winner] = winners;
      expect(await store.findSandbox(owner.projectId, "wanted")).toEqual(winner?.sandbox);
      for (const { sandbox, session } of pairs.filter((pair) => pair !== winner)) {
        expect(await store.getSandbox(sandbox.id)).toBeUndefined();
        expect(await store.getSession(session.id)).toBeUndefined();
        expect(await store.findSandboxByRoute(sandbox.routes[0]?.subdomain ?? "")).toBeUndefined();
      }
    });

    test("a sandbox whose session cannot be recorded is not recorded either", async () => {
      const { store } = host();
      const { session: taken } = await newSandbox(store);
      const { sandbox, session } = sandboxOf(await newOwner(store));
      await expect(store.insertSandbox(sandbox, { ...session, id: taken.id })).rejects.toMatchObject({
        code: "exists",
      });
      expect(await store.getSandbox(sandbox.id)).toBeUndefined();
      await store.insertSandbox(sandbox, session);
    });

    test("an update replaces the given fields, clears those given as undefined, and leaves the rest", async () => {
      const { store } = host();
      const { sandbox } = await newSandbox(store, everything());
      const updated = await store.updateSandbox(sandbox.id, {
        timeout: 1000,
        env: { A: "1" },
        networkId: undefined,
        keepLastSnapshots: undefined,
        currentSnapshotId: undefined,
        updatedAt: noon + 10,
      });
      const { networkId, keepLastSnapshots, currentSnapshotId, ...rest } = sandbox;
      expect([networkId, keepLastSnapshots, currentSnapshotId]).not.toContain(undefined);
      expect(updated).toStrictEqual({ ...rest, timeout: 1000, env: { A: "1" }, updatedAt: noon + 10 });
      expect(await store.getSandbox(sandbox.id)).toStrictEqual(updated);
    });

    test("an empty update changes nothing", async () => {
      const { store } = host();
      const { sandbox } = await newSandbox(store);
      expect(await store.updateSandbox(sandbox.id, {})).toStrictEqual(sandbox);
    });

    test("updates at the same time that name different fields are both kept", async () => {
      const { store } = host();
      const { sandbox } = await newSandbox(store);
      await Promise.all([
        store.updateSandbox(sandbox.id, { timeout: 1000, tags: { a: "1" } }),
        store.updateSandbox(sandbox.id, { region: "fra1" }),
        store.updateSandbox(sandbox.id, { vcpus: 8 }),
      ]);
      expect(await store.getSandbox(sandbox.id)).toMatchObject({
        timeout: 1000,
        region: "fra1",
        vcpus: 8,
        tags: { a: "1" },
      });
    });

    test("an update of a missing sandbox returns nothing", async () => {
      expect(await host().store.updateSandbox("sandbox_none", { timeout: 1 })).toBeUndefined();
      expect(await host().store.getSandbox("sandbox_none")).toBeUndefined();
    });

    test("a sandbox is found by its current routes", async () => {
      const { store } = host();
      const [first, second, third] = [unique("sb-"), unique("sb-"), unique("sb-")];
      const { sandbox } = await newSandbox(store, {
        routes: [
          { port: 1, subdomain: first },
          { port: 2, subdomain: second },
        ],
      });
      expect((await store.findSandboxByRoute(first))?.id).toBe(sandbox.id);
      await store.updateSandbox(sandbox.id, {
        routes: [
          { port: 2, subdomain: second },
          { port: 3, subdomain: third },
        ],
      });
      expect(await store.findSandboxByRoute(first)).toBeUndefined();
      expect((await store.findSandboxByRoute(second))?.id).toBe(sandbox.id);
      expect((await store.findSandboxByRoute(third))?.routes).toEqual([
        { port: 2, subdomain: second },
        { port: 3, subdomain: third },
      ]);
    });

    test("a route that another sandbox has is refused, and nothing of the update stays", async () => {
      const { store } = host();
      const subdomain = unique("sb-");
      await newSandbox(store, { routes: [{ port: 1, subdomain }] });
      const { sandbox } = await newSandbox(store);
      const update = store.updateSandbox(sandbox.id, { timeout: 7, routes: [{ port: 1, subdomain }] });
      await expect(update).rejects.toMatchObject({ code: "exists" });
      expect(await store.getSandbox(sandbox.id)).toStrictEqual(sandbox);
    });
  });

  describe("a stale sandbox", () => {
    test("is one that ended long ago and has nothing to boot from", async () => {
      const store = await freshStore(host());
      const owner = await newOwner(store);
      const at = (age: number, fields: Partial<Sandbox>) =>
        newSandbox(store, { owner, stateChangedAt: noon - age, state: "stopped", ...fields });
      const oldest = await at(9, {});
      const failed = await at(8, { state: "failed" });
      const kept = await at(7, {});
      const running = await at(7, { state: "running" });
      const deleted = await at(7, {});
      await at(5, {});
      await store.deleteSandbox(deleted.sandbox.id, noon);
      const snapshot = snapshotOf(kept);
      await store.insertSnapshot(snapshot);
      await store.updateSandbox(kept.sandbox.id, { currentSnapshotId: snapshot.id });
      await store.updateSandbox(running.sandbox.id, { currentSnapshotId: snapshot.id });
      const stale = async (limit = 10) => (await store.staleSandboxes(noon - 5, limit)).map(({ id }) => id);
      expect(await stale()).toEqual([oldest.sandbox.id, failed.sandbox.id]);
      expect(await stale(1)).toEqual([oldest.sandbox.id]);
      await store.updateSnapshot(snapshot.id, { state: "deleted" });
      expect(await stale()).toEqual([oldest.sandbox.id, failed.sandbox.id, kept.sandbox.id]);
      const another = snapshotOf(kept);
      await store.insertSnapshot(another);
      await store.updateSandbox(kept.sandbox.id, { currentSnapshotId: another.id });
      expect(await stale()).toEqual([oldest.sandbox.id, failed.sandbox.id]);
    });
  });

  describe("a deleted sandbox", () => {
    test("frees its name and routes, and is in no list", async () => {
      const { store } = host();
      const subdomain = unique("sb-");
      const { sandbox } = await newSandbox(store, {
        name: "again",
        tags: { a: "b" },
        routes: [{ port: 1, subdomain }],
      });
      const owner = { teamId: sandbox.teamId, projectId: sandbox.projectId };
      expect(await store.deleteSandbox(sandbox.id, noon + 1)).toBe(true);
      expect(await store.findSandbox(sandbox.projectId, "again")).toBeUndefined();
      expect(await store.findSandboxByRoute(subdomain)).toBeUndefined();
      const query = { ...owner, limit: 10, order: "asc", sortBy: "createdAt" } as const;
      expect(await store.listSandboxes(query)).toEqual({ items: [] });
      expect(await store.listSandboxes({ ...query, tags: { a: "b" } })).toEqual({ items: [] });
      expect(await store.listSandboxes({ ...query, states: ["pending"] })).toEqual({ items: [] });
      const { sandbox: successor } = await newSandbox(store, {
        owner,
        name: "again",
        routes: [{ port: 1, subdomain }],
      });
      expect(await store.findSandbox(sandbox.projectId, "again")).toEqual(successor);
    });

    test("is deleted once, however many requests there are", async () => {
      const { store } = host();
      const { sandbox } = await newSandbox(store);
      const outcomes = await Promise.all([1, 2, 3].map((at) => store.deleteSandbox(sandbox.id, noon + at)));
      expect(outcomes.filter(Boolean)).toHaveLength(1);
      expect(await store.deleteSandbox(sandbox.id, noon + 9)).toBe(false);
      expect(await store.deleteSandbox("sandbox_none", noon)).toBe(false);
    });

    test("accepts no update and no session", async () => {
      const { store } = host();
      const { sandbox, session } = await newSandbox(store);
      await store.deleteSandbox(sandbox.id, noon);
      expect(await store.updateSandbox(sandbox.id, { timeout: 1 })).toBeUndefined();
      expect(await store.insertSession(sessionOf(sandbox), session.id)).toBe(false);
    });

    test("stays readable for its sessions and snapshots", async () => {
      const { store } = host();
      const pair = await newSandbox(store);
      const { sandbox, session } = pair;
      await store.deleteSandbox(sandbox.id, noon);
      expect(await store.getSandbox(sandbox.id)).toMatchObject({ id: sandbox.id, name: sandbox.name });
      expect(await store.moveSession(session.id, ["pending"], "failed", {})).toMatchObject({ state: "failed" });
      await store.insertSnapshot(snapshotOf(pair));
      expect(await store.snapshotsOf(sandbox.id)).toHaveLength(1);
      const query = { projectId: sandbox.projectId, limit: 10, order: "asc" } as const;
      expect((await store.listSessions(query)).items).toHaveLength(1);
      expect((await store.listSnapshots({ ...query, sandboxName: sandbox.name })).items).toHaveLength(1);
    });
  });
}
