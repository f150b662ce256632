/** Lists: every order and filter, pages that miss nothing and repeat nothing, and cursors valid for one list only. */

import { describe, expect, test } from "vitest";
import type { Owner, Sandbox } from "../../../src/core/model/sandbox.ts";
import type { DriveQuery, SandboxQuery, Store } from "../../../src/core/ports/store.ts";
import {
  at,
  driveOf,
  newOwner,
  newProject,
  newSandbox,
  noon,
  type StoreHost,
  sandboxOf,
  sessionOf,
  snapshotOf,
  walk,
} from "./host.ts";

const newest = { limit: 20, order: "desc", sortBy: "createdAt" } as const;

async function fill(
  store: Store,
  owner: Owner,
  count: number,
  fields: (i: number) => Partial<Sandbox>,
): Promise<Sandbox[]> {
  const pairs = Array.from({ length: count }, (_, i) => sandboxOf(owner, fields(i)));
  for (let i = 0; i < count; i += 100)
    await Promise.all(pairs.slice(i, i + 100).map((pair) => store.insertSandbox(pair.sandbox, pair.session)));
  return pairs.map((pair) => pair.sandbox);
}

export function listsSuite(host: () => StoreHost): void {
  describe("the list of sandboxes", () => {
    const names = ["b", "a", "B", "é", "a-1", "z", "a_2", "🏖", "\uffee", "a%"];
    const inBytes = ["B", "a", "a%", "a-1", "a_2", "b", "z", "é", "\uffee", "🏖"];

    async function named(): Promise<{ store: Store; owner: Owner }> {
      const { store } = host();
      const owner = await newOwner(store);
      await fill(store, owner, names.length, (i) => ({
        name: names[i] ?? "",
        // Two rows for each moment, so that the order of equal ones matters.
        createdAt: noon + Math.floor(i / 2),
        stateChangedAt: noon - Math.floor(i / 2),
        ...(i % 3 === 0 && { currentSnapshotId: `snap_${i % 2}` }),
      }));
      return { store, owner };
    }

    test.for(["createdAt", "name", "stateChangedAt", "currentSnapshotId"] as const)(
      "by %s has every page in order, and backwards the reverse",
      async (sortBy) => {
        const { store, owner } = await named();
        const list = (limit: number, order: "asc" | "desc") =>
          walk((cursor) => store.listSandboxes({ ...owner, sortBy, order, limit, ...at(cursor) }));
        const whole = await list(50, "asc");
        expect(whole.map(({ name }) => name).sort()).toEqual(names.toSorted());
        const keys = whole.map((sandbox) => sandbox[sortBy] ?? "");
        expect(keys).toEqual(sortBy === "name" ? inBytes : keys.toSorted((a, b) => (a === b ? 0 : a < b ? -1 : 1)));
        for (const limit of [1, 3, 9, 10]) {
          expect(await list(limit, "asc")).toEqual(whole);
          expect(await list(limit, "desc")).toEqual(whole.toReversed());
        }
      },
    );

    test("has sandboxes without a snapshot first, when ascending", async () => {
      const { store, owner } = await named();
      const { items } = await store.listSandboxes({ ...owner, sortBy: "currentSnapshotId", order: "asc", limit: 50 });
      const without = items.filter(({ currentSnapshotId }) => currentSnapshotId === undefined);
      expect(without.length).toBeGreaterThan(0);
      expect(items.slice(0, without.length)).toEqual(without);
    });

    test("by a prefix has the names that begin with exactly its characters", async () => {
      const { store, owner } = await named();
      const found = (namePrefix: string, sortBy: SandboxQuery["sortBy"] = "name") =>
        walk((cursor) => store.listSandboxes({ ...owner, namePrefix, sortBy, order: "asc", limit: 2, ...at(cursor) }));
      const namesOf = async (prefix: string) => (await found(prefix)).map(({ name }) => name);
      expect(await namesOf("a")).toEqual(["a", "a%", "a-1", "a_2"]);
      expect(await namesOf("a_")).toEqual(["a_2"]);
      expect(await namesOf("a%")).toEqual(["a%"]);
      expect(await namesOf("")).toEqual(inBytes);
      expect(await namesOf("🏖")).toEqual(["🏖"]);
      expect(await namesOf("\uffee")).toEqual(["\uffee"]);
      expect(await namesOf("\ud7ff")).toEqual([]);
      expect(await namesOf("\u{10ffff}")).toEqual([]);
      expect(await namesOf("nothing")).toEqual([]);
      expect((await found("a", "createdAt")).map(({ name }) => name).sort()).toEqual(["a", "a%", "a-1", "a_2"]);
    });

    test("by states has the sandboxes in any of them, in one order", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      const states = ["running", "stopped", "pending", "stopping"] as const;
      const all = await fill(store, owner, 40, (i) => ({
        state: states[i % 4] ?? "failed",
        createdAt: noon + (i % 7),
      }));
      const found = (wanted: SandboxQuery["states"], sortBy: SandboxQuery["sortBy"] = "createdAt") =>
        walk((cursor) =>
          store.listSandboxes({
            ...owner,
            order: "desc",
            limit: 3,
            sortBy,
            ...(wanted && { states: wanted }),
            ...at(cursor),
          }),
        );
      const everything = await found(undefined);
      expect(everything).toHaveLength(all.length);
      for (const wanted of [
        ["running"],
        ["running", "stopped", "pending"],
        ["failed"],
        ["stopped", "stopped"],
        [],
      ] as const) {
        const expected = everything.filter(({ state }) => wanted.some((each) => each === state));
        expect(await found(wanted)).toEqual(expected);
        expect(await found(wanted, "name")).toHaveLength(expected.length);
      }
    });

    test("can leave out ended ones that kept nothing, older ones and other images, and counts the same", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      const names = ["running", "kept", "lost", "old", "image", "other"];
      const pairs = names.map((name, i) => {
        const isOver = name === "kept" || name === "lost";
        const imageName = { image: 'a"b_c%', other: 'a"bxc%' }[name];
        const pair = sandboxOf(owner, {
          name,
          state: isOver ? "stopped" : "running",
          createdAt: name === "old" ? noon - 1 : noon + i,
          tags: { a: "b" },
          ...(name === "old" && { notes: { wire: { made: 'n"o_t%' } } }),
          ...(name === "kept" && { notes: { wire: { other: "made" } } }),
          base: { image: "host", cwd: "/", user: "root", ...(imageName !== undefined && { imageName }) },
        });
        return name === "kept" ? { ...pair, session: { ...pair.session, snapshottedAt: noon } } : pair;
      });
      for (const { sandbox, session } of pairs) await store.insertSandbox(sandbox, session);
      const noted = (value: string, ...imageNames: (string | null)[]): Partial<SandboxQuery> => ({
        noted: { member: "made", value, otherwise: { imageNames: imageNames.length > 0 ? imageNames : ["none"] } },
      });
      const filters: [Partial<SandboxQuery>, string[]][] = [
        [{ kept: true }, ["old", "running", "kept", "image", "other"]],
        [{ kept: true, states: ["stopped"] }, ["kept"]],
        [{ states: ["stopped"] }, ["kept", "lost"]],
        [{ createdAfter: noon }, ["kept", "lost", "image", "other"]],
        [noted('a"b_c%', 'a"b_c%'), ["image"]],
        [noted("a", 'a"b_c%', null), ["running", "kept", "lost", "image"]],
        [noted('n"o_t%'), ["old"]],
        [noted('n"o_t%', 'a"b_c%'), ["old", "image"]],
        [noted('n"o%t%', "none"), []],
        [{ image: { name: 'a"b_c%', teamId: "team_1" } }, ["image"]],
        [{ image: { name: "host", teamId: "team_1" } }, ["old", "running", "kept", "lost"]],
        [{ image: { name: "hos", teamId: "team_1" } }, []],
      ];
      for (const [filter, expected] of filters) {
        for (const tags of [undefined, { a: "b" }]) {
          const query = { ...owner, ...filter, ...(tags && { tags }) };
          const found = await walk((cursor) =>
            store.listSandboxes({ ...query, order: "asc", sortBy: "createdAt", limit: 2, ...at(cursor) }),
          );
          expect(found.map(({ name }) => name)).toEqual(expected);
          expect(await store.countSandboxes(query)).toBe(expected.length);
        }
      }
      expect(await store.countSandboxes({ ...owner, tags: { a: "c" } })).toBe(0);
    });

    test("has no sandbox of another project, not even of the same team", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      const sibling = await newProject(store, owner.teamId);
      await fill(store, owner, 3, () => ({ tags: { a: "b" } }));
      for (const filter of [{}, { tags: { a: "b" } }, { namePrefix: "n" }, { states: ["pending"] as const }])
        expect(await store.listSandboxes({ ...newest, ...sibling, ...filter })).toEqual({ items: [] });
    });

    test("has no next page after the last row, whatever the limit", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      await fill(store, owner, 4, () => ({}));
      const page = await store.listSandboxes({ ...newest, ...owner, limit: 2 });
      expect(page.next).toBeTypeOf("string");
      const last = await store.listSandboxes({ ...newest, ...owner, limit: 2, ...at(page.next) });
      expect(last.items).toHaveLength(2);
      expect(last).not.toHaveProperty("next");
    });
  });

  describe("a walk along a long list", () => {
    test.for(["asc", "desc"] as const)("%s sees each of 1,000 rows once while others are inserted", async (order) => {
      const { store } = host();
      const owner = await newOwner(store);
      // Eight rows for each moment.
      const before = await fill(store, owner, 1000, (i) => ({ createdAt: noon + Math.floor(i / 8) }));
      let inserted = 0;
      const walked = await walk(
        (cursor) => store.listSandboxes({ ...owner, sortBy: "createdAt", order, limit: 15, ...at(cursor) }),
        async () => {
          await fill(store, owner, 2, () => ({ createdAt: noon + ((inserted++ * 97) % 125) }));
        },
      );
      const seen = walked.map(({ id }) => id);
      expect(new Set(seen).size).toBe(seen.length);
      expect(before.filter(({ id }) => !new Set(seen).has(id)).length).toBe(0);
    });
  });

  describe("a cursor", () => {
    test("is valid only for the list that it came from", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      const other = await newOwner(store);
      await fill(store, owner, 3, () => ({ tags: { a: "b" } }));
      const query = { ...newest, ...owner, limit: 1 };
      const { next } = await store.listSandboxes(query);
      expect((await store.listSandboxes({ ...query, limit: 2, ...at(next) })).items).toHaveLength(2);
      const others: SandboxQuery[] = [
        { ...query, ...other },
        { ...query, order: "asc" },
        { ...query, sortBy: "stateChangedAt" },
        { ...query, sortBy: "name" },
        { ...query, namePrefix: "n" },
        { ...query, states: ["pending"] },
        { ...query, tags: { a: "b" } },
      ];
      for (const elsewhere of others)
        await expect(store.listSandboxes({ ...elsewhere, ...at(next) })).rejects.toMatchObject({ code: "invalid" });
      const { projectId } = owner;
      const plain = { projectId, limit: 1, order: "desc", ...at(next) } as const;
      await expect(store.listSessions(plain)).rejects.toMatchObject({ code: "invalid" });
      await expect(store.listSnapshots(plain)).rejects.toMatchObject({ code: "invalid" });
      await expect(store.listDrives({ ...plain, sortBy: "createdAt" })).rejects.toMatchObject({ code: "invalid" });
    });

    test("that the store did not issue is invalid", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      await fill(store, owner, 2, () => ({}));
      const query = { ...newest, ...owner, limit: 1 };
      const { next = "" } = await store.listSandboxes(query);
      const [print] = JSON.parse(Buffer.from(next, "base64url").toString());
      const forged = [
        [print, "text", "id"],
        [print, 1, 2],
        [print, 1],
        [print, 1, "id", "more"],
        [print, 1.5, "id"],
        [print, 1e300, "id"],
        [print, null, "id"],
        [print, 1, "\0"],
        [print, 1, "\ud800"],
        ["", 1, "id"],
        { length: 3 },
        null,
        "text",
      ].map((value) => Buffer.from(JSON.stringify(value)).toString("base64url"));
      const garbage = [
        "",
        "x",
        "%%%",
        "AAAA",
        next.slice(1),
        next.slice(0, -5),
        "é",
        "x".repeat(100_000),
        "[]",
        "null",
      ];
      for (const cursor of [...forged, ...garbage])
        await expect(store.listSandboxes({ ...query, cursor }), cursor.slice(0, 80)).rejects.toMatchObject({
          code: "invalid",
        });
    });

    test("stays valid when the row it points to is deleted", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      await fill(store, owner, 4, (i) => ({ createdAt: noon + i }));
      const page = await store.listSandboxes({ ...newest, ...owner, limit: 2 });
      for (const { id } of page.items) await store.deleteSandbox(id, noon);
      const rest = await store.listSandboxes({ ...newest, ...owner, limit: 9, ...at(page.next) });
      expect(rest.items.map(({ createdAt }) => createdAt)).toEqual([noon + 1, noon]);
    });
  });

  describe("lists of sessions, snapshots and drives", () => {
    test("sessions are in order of creation, for a project or a name", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      const { sandbox, session } = await newSandbox(store, { owner, name: "mine" });
      await newSandbox(store, { owner, name: "other", createdAt: noon + 100 });
      await newSandbox(store, { name: "mine" });
      let after = session.id;
      for (let i = 1; i < 12; i++) {
        const next = sessionOf(sandbox, { createdAt: noon + Math.floor(i / 4) });
        await store.insertSession(next, after);
        after = next.id;
      }
      const { projectId } = owner;
      const list = (order: "asc" | "desc", sandboxName?: string) =>
        walk((cursor) =>
          store.listSessions({ projectId, order, limit: 5, ...(sandboxName && { sandboxName }), ...at(cursor) }),
        );
      const mine = await list("asc", "mine");
      expect(mine).toHaveLength(12);
      expect(mine.map(({ createdAt }) => createdAt)).toEqual(mine.map(({ createdAt }) => createdAt).toSorted());
      expect(await list("desc", "mine")).toEqual(mine.toReversed());
      expect(await list("asc")).toHaveLength(13);
      expect(await list("asc", "nobody")).toEqual([]);
    });

    test("snapshots are in order of creation, for a project or a name", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      const pair = await newSandbox(store, { owner, name: "mine" });
      const other = await newSandbox(store, { owner, name: "other" });
      for (let i = 0; i < 7; i++)
        await store.insertSnapshot(snapshotOf(i === 3 ? other : pair, { createdAt: noon + Math.floor(i / 2) }));
      const { projectId } = owner;
      const list = (order: "asc" | "desc", sandboxName?: string) =>
        walk((cursor) =>
          store.listSnapshots({ projectId, order, limit: 2, ...(sandboxName && { sandboxName }), ...at(cursor) }),
        );
      const all = await list("asc");
      expect(all).toHaveLength(7);
      expect(await list("desc")).toEqual(all.toReversed());
      expect(await list("asc", "mine")).toEqual(all.filter(({ sandboxName }) => sandboxName === "mine"));
    });

    test.for(["createdAt", "updatedAt", "name"] as const)("drives are listed by %s", async (sortBy) => {
      const { store } = host();
      const owner = await newOwner(store);
      for (const [i, name] of ["b", "a%", "B", "a_1", "é"].entries())
        await store.insertDrive(driveOf(owner, { name, createdAt: noon + (i % 2), updatedAt: noon - (i % 3) }));
      const list = (fields: Partial<DriveQuery>) =>
        walk((cursor) => store.listDrives({ ...owner, sortBy, order: "asc", limit: 2, ...fields, ...at(cursor) }));
      const all = await list({});
      expect(all).toHaveLength(5);
      const keys = all.map((drive) => drive[sortBy]);
      expect(keys).toEqual(keys.toSorted((a, b) => (a === b ? 0 : a < b ? -1 : 1)));
      expect(await list({ order: "desc" })).toEqual(all.toReversed());
      expect((await list({ namePrefix: "a" })).map(({ name }) => name).sort()).toEqual(["a%", "a_1"]);
    });
  });
}
