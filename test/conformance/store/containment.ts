/** Sessions by the tags of their sandboxes: every pair must match, and in nested values every pair of those. */

import { describe, expect, test } from "vitest";
import type { Owner, TagValue } from "../../../src/core/model/sandbox.ts";
import type { SessionQuery, Store } from "../../../src/core/ports/store.ts";
import { at, newOwner, newProject, newSandbox, noon, type StoreHost, sessionOf, walk } from "./host.ts";

type Tags = Record<string, TagValue>;

/** names of the sandboxes of the found sessions, oldest first */
async function namesWith(
  store: Store,
  { projectId }: Owner,
  contains: Tags,
  fields: Partial<SessionQuery> = {},
): Promise<string[]> {
  const query: SessionQuery = { projectId, order: "asc", limit: 7, contains, ...fields };
  return (await walk((cursor) => store.listSessions({ ...query, ...at(cursor) }))).map(
    (session) => session.sandboxName,
  );
}

export function containmentSuite(host: () => StoreHost): void {
  describe("sessions by tags", () => {
    const nested: Tags = { user: { id: 7, roles: ["admin", "dev"], address: { city: "Bern", zip: null } }, v: 1 };
    const lists: Tags = { v: [1, 2, { a: 1, b: 2 }, { a: 3 }, [4]], empty: [], none: {} };

    const rows: [Tags, Tags, boolean][] = [
      [nested, {}, true],
      [nested, { v: 1 }, true],
      [nested, { v: "1" }, false],
      [nested, { user: { id: 7 } }, true],
      [nested, { user: { id: 8 } }, false],
      [nested, { user: {} }, true],
      [nested, { user: [] }, false],
      [nested, { user: { address: { city: "Bern" }, id: 7 }, v: 1 }, true],
      [nested, { user: { address: { city: "Bern", zip: null } } }, true],
      [nested, { user: { address: { zip: "" } } }, false],
      [nested, { user: { roles: ["dev"] } }, true],
      [nested, { user: { roles: ["dev", "admin", "dev"] } }, true],
      [nested, { user: { roles: ["dev", "root"] } }, false],
      [nested, { user: { roles: "dev" } }, false],
      [nested, { id: 7 }, false],
      [lists, { v: [] }, true],
      [lists, { v: [2, 1] }, true],
      [lists, { v: [{ a: 1 }] }, true],
      [lists, { v: [{ b: 2, a: 1 }] }, true],
      [lists, { v: [{ a: 3, b: 2 }] }, false],
      [lists, { v: [{ a: 1 }, { b: 2 }] }, true],
      [lists, { v: [4] }, false],
      [lists, { v: [[4]] }, true],
      [lists, { v: [[]] }, true],
      [lists, { v: { a: 1 } }, false],
      [lists, { empty: [], none: {} }, true],
      [lists, { empty: {} }, false],
      [lists, { empty: [1] }, false],
      [lists, { none: null }, false],
      [{ "": "", "a.b": "\u0000é🏖" }, { "": "", "a.b": "\u0000é🏖" }, true],
      [{ a: { b: 1 } }, { "a.b": 1 }, false],
      [{ long: "x".repeat(5000) }, { long: "x".repeat(5000) }, true],
      [{ long: "x".repeat(5000) }, { long: "x".repeat(4999) }, false],
    ];
    test.for(rows.map((row, i) => [i, ...row] as const))("%i: %j contains %j: %j", async ([, tags, part, expected]) => {
      const { store } = host();
      const { sandbox } = await newSandbox(store, { tags });
      expect(await namesWith(store, sandbox, part)).toEqual(expected ? [sandbox.name] : []);
      expect(await namesWith(store, sandbox, part, { sandboxName: sandbox.name })).toHaveLength(expected ? 1 : 0);
      expect(await namesWith(store, sandbox, part, { open: true })).toHaveLength(expected ? 1 : 0);
    });

    test("all sessions of a sandbox have its tags as they are now, also once it is deleted", async () => {
      const { store } = host();
      const { sandbox, session } = await newSandbox(store, { name: "mine", tags: { a: "1", b: { c: 2 } } });
      const next = sessionOf(sandbox, { createdAt: noon + 5 });
      await store.insertSession(next, session.id);
      expect(await namesWith(store, sandbox, { b: { c: 2 } })).toEqual(["mine", "mine"]);
      await store.updateSandbox(sandbox.id, { tags: { a: "1", b: { c: 3 }, d: true } });
      expect(await namesWith(store, sandbox, { b: { c: 2 } })).toEqual([]);
      expect(await namesWith(store, sandbox, { a: "1", b: { c: 3 }, d: true })).toEqual(["mine", "mine"]);
      await store.insertSession(sessionOf(sandbox, { createdAt: noon + 6 }), next.id);
      await store.deleteSandbox(sandbox.id, noon + 7);
      expect(await namesWith(store, sandbox, { d: true })).toEqual(["mine", "mine", "mine"]);
      expect(await store.updateSandbox(sandbox.id, { tags: {} })).toBeUndefined();
      expect(await namesWith(store, sandbox, { b: { c: 3 } })).toHaveLength(3);
    });

    test("a change of tags applies to hundreds of sessions, and to one that is resumed meanwhile", async () => {
      const { store } = host();
      const { sandbox, session } = await newSandbox(store, { tags: { v: 0 } });
      let last = session.id;
      for (let i = 0; i < 450; i++) {
        const next = sessionOf(sandbox, { createdAt: noon + i });
        if (i % 150 === 149)
          await Promise.all([
            store.insertSession(next, last),
            store.updateSandbox(sandbox.id, { tags: { v: i, w: [i] } }),
          ]);
        else await store.insertSession(next, last);
        last = next.id;
      }
      expect(await namesWith(store, sandbox, { v: 449, w: [449] }, { limit: 200 })).toHaveLength(451);
      expect(await namesWith(store, sandbox, { v: 0 })).toEqual([]);
      expect(await namesWith(store, sandbox, { v: 299 })).toEqual([]);
    });

    test("a filter finds sessions of one project only, and a cursor is valid for one filter only", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      for (let i = 0; i < 3; i++) await newSandbox(store, { owner, tags: { a: 1, b: 2 } });
      expect(await namesWith(store, await newProject(store, owner.teamId), { a: 1 })).toEqual([]);
      const query = { projectId: owner.projectId, order: "asc", limit: 1, contains: { a: 1 } } as const;
      const { next } = await store.listSessions(query);
      expect((await store.listSessions({ ...query, ...at(next) })).items).toHaveLength(1);
      for (const contains of [{}, { a: 2 }, { a: 1, b: 2 }])
        await expect(store.listSessions({ ...query, contains, ...at(next) })).rejects.toMatchObject({
          code: "invalid",
        });
    });

    test("summaries are the same list, with the sandbox's current tags, deleted or not", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      const { sandbox } = await newSandbox(store, { owner, tags: { a: 1, b: { c: [2] } } });
      const { sandbox: deleted } = await newSandbox(store, { owner, tags: { a: 1 } });
      const started = sessionOf(sandbox, { startedAt: noon + 5, expiresAt: noon + 9, sourceSnapshotId: "snap_1" });
      await store.insertSession(started, sandbox.currentSessionId);
      await store.updateSandbox(sandbox.id, { tags: { a: 1, b: "new" } });
      await store.deleteSandbox(deleted.id, noon);
      for (const contains of [undefined, { a: 1 }, { b: "new" }]) {
        const query: SessionQuery = {
          projectId: owner.projectId,
          order: "desc",
          limit: 2,
          ...(contains && { contains }),
        };
        const sessions = await walk((cursor) => store.listSessions({ ...query, ...at(cursor) }));
        const summaries = await walk((cursor) => store.listSessionSummaries({ ...query, ...at(cursor) }));
        const expected = sessions.map(
          ({ id, state, sourceSnapshotId, requestedAt, startedAt, expiresAt, sandboxId }) => ({
            ...{ id, state, sourceSnapshotId, requestedAt, startedAt, expiresAt },
            tags: sandboxId === sandbox.id ? { a: 1, b: "new" } : { a: 1 },
          }),
        );
        expect(expected).toHaveLength(contains && "b" in contains ? 2 : 3);
        expect(summaries).toEqual(expected);
        expect(summaries.find(({ id }) => id === started.id)).toMatchObject({
          startedAt: noon + 5,
          sourceSnapshotId: "snap_1",
        });
      }
    });

    test("common, rare, disjoint and misleading values are found along the whole list", {
      timeout: 60_000,
    }, async () => {
      const { store } = host();
      const owner = await newOwner(store);
      // More than the thousand rows from which a pair is common.
      const count = 1200;
      const name = (i: number) => `n-${i.toString().padStart(5, "0")}`;
      const create = (i: number) =>
        newSandbox(store, {
          owner,
          name: name(i),
          createdAt: noon + Math.floor(i / 10),
          state: i % 4 === 0 ? "running" : "stopped",
          tags: {
            all: "yes",
            half: i % 2,
            side: i % 2 ? "left" : "right",
            ...(i % 300 === 0 && { rare: true }),
            // Both pairs are present, but within one element only in the last row.
            list: i === count - 1 ? [{ a: 1, b: 2 }] : [{ a: 1 }, { b: 2 }],
          },
        });
      for (let i = 0; i < count; i += 100) await Promise.all(Array.from({ length: 100 }, (_, j) => create(i + j)));
      const found = async (contains: Tags, fields: Partial<SessionQuery> = {}) =>
        (await namesWith(store, owner, contains, { limit: 97, ...fields })).toSorted();
      const those = (is: (i: number) => boolean) =>
        Array.from({ length: count }, (_, i) => i)
          .filter(is)
          .map(name);
      for (const order of ["asc", "desc"] as const) {
        expect(await found({ all: "yes" }, { order })).toEqual(those(() => true));
        expect(await found({ all: "yes", half: 1 }, { order })).toEqual(those((i) => i % 2 === 1));
        expect(await found({ half: 1, side: "right" }, { order })).toEqual([]);
        expect(await found({ half: 0, rare: true }, { order, limit: 2 })).toEqual(those((i) => i % 300 === 0));
        expect(await found({ list: [{ a: 1, b: 2 }] }, { order })).toEqual(those((i) => i === count - 1));
        expect(await found({ list: [{ a: 1 }], half: 1 }, { order, open: true })).toEqual([]);
        expect(await found({ half: 0 }, { order, open: true })).toEqual(those((i) => i % 4 === 0));
        expect(await found({ all: "no" }, { order })).toEqual([]);
        const span = { after: { at: noon + 49 }, before: { at: noon + 60 } };
        expect(await found({ half: 1 }, { order, ...span, limit: 3 })).toEqual(
          those((i) => i % 2 === 1 && i >= 500 && i < 600),
        );
      }
    });

    test("a filter may have a hundred pairs, and more are refused", async () => {
      const { store } = host();
      const tags = Object.fromEntries(Array.from({ length: 3000 }, (_, i) => [`key-${i}`, i]));
      const { sandbox } = await newSandbox(store, { tags });
      const some = (count: number) => Object.fromEntries(Object.entries(tags).slice(0, count));
      const list = (count: number) =>
        store.listSandboxes({ ...sandbox, order: "asc", sortBy: "name", limit: 5, tags: some(count) });
      expect(await namesWith(store, sandbox, some(100))).toEqual([sandbox.name]);
      expect(await namesWith(store, sandbox, some(100), { open: true })).toEqual([sandbox.name]);
      expect((await list(100)).items).toHaveLength(1);
      for (const count of [101, 3000]) {
        await expect(namesWith(store, sandbox, some(count))).rejects.toMatchObject({ code: "invalid" });
        await expect(list(count)).rejects.toMatchObject({ code: "invalid" });
      }
    });

    test("tags that are too deep or too many are refused, and nothing is changed", async () => {
      const { store } = host();
      const { sandbox } = await newSandbox(store, { tags: { a: 1 } });
      let deep: TagValue = 1;
      for (let i = 0; i < 100_000; i++) deep = [deep];
      const many = Array.from({ length: 20_000 }, (_, i) => i);
      for (const tags of [{ deep }, { many }]) {
        await expect(store.updateSandbox(sandbox.id, { tags })).rejects.toMatchObject({ code: "invalid" });
        await expect(newSandbox(store, { tags })).rejects.toMatchObject({ code: "invalid" });
        await expect(namesWith(store, sandbox, tags)).rejects.toMatchObject({ code: "invalid" });
      }
      expect(await store.getSandbox(sandbox.id)).toStrictEqual(sandbox);
    });
  });
}
