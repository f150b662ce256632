/** Filters by tags: every pair must match as a whole, in any order and however common it is. */

import { describe, expect, test } from "vitest";
import type { Owner, TagValue } from "../../../src/core/model/sandbox.ts";
import type { SandboxQuery, Store } from "../../../src/core/ports/store.ts";
import { at, newOwner, newSandbox, noon, type StoreHost, walk } from "./host.ts";

type Tags = Record<string, TagValue>;

async function namesWith(
  store: Store,
  owner: Owner,
  tags: Tags,
  fields: Partial<SandboxQuery> = {},
): Promise<string[]> {
  const query: SandboxQuery = { ...owner, sortBy: "createdAt", order: "asc", limit: 7, tags, ...fields };
  return (await walk((cursor) => store.listSandboxes({ ...query, ...at(cursor) }))).map(({ name }) => name);
}

export function tagsSuite(host: () => StoreHost): void {
  describe("tags", () => {
    test("a filter finds sandboxes that have every pair", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      const all: Record<string, Tags> = {
        none: {},
        prod: { env: "prod" },
        both: { env: "prod", team: "core", clé: "été 🏖" },
        dev: { env: "dev", team: "core" },
      };
      let age = 0;
      for (const [name, tags] of Object.entries(all))
        await newSandbox(store, { owner, name, tags, createdAt: noon + age++ });
      expect(await namesWith(store, owner, { env: "prod" })).toEqual(["prod", "both"]);
      expect(await namesWith(store, owner, { env: "prod", team: "core" })).toEqual(["both"]);
      expect(await namesWith(store, owner, { env: "prod", team: "none" })).toEqual([]);
      expect(await namesWith(store, owner, { clé: "été 🏖" })).toEqual(["both"]);
      expect(await namesWith(store, owner, { team: "core" }, { order: "desc" })).toEqual(["dev", "both"]);
      expect(await namesWith(store, owner, { env: "PROD" })).toEqual([]);
      expect(await namesWith(store, owner, {})).toHaveLength(4);
      expect(await namesWith(store, owner, { env: "prod" }, { namePrefix: "b" })).toEqual(["both"]);
      expect(await namesWith(store, owner, { env: "prod" }, { states: ["running"] })).toEqual([]);
      expect(await namesWith(store, owner, { env: "prod" }, { states: ["running", "pending"] })).toHaveLength(2);
    });

    test("values of another type do not match, and nested ones are compared as a whole", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      const values: Record<string, TagValue> = {
        text: "1",
        number: 1,
        truth: true,
        word: "true",
        nothing: null,
        list: [1, { a: 1, b: 2 }],
        object: { b: { d: 1, c: [] }, a: "x" },
      };
      for (const [name, v] of Object.entries(values)) await newSandbox(store, { owner, name, tags: { v } });
      for (const [name, v] of Object.entries(values)) expect(await namesWith(store, owner, { v })).toEqual([name]);
      expect(await namesWith(store, owner, { v: { a: "x", b: { c: [], d: 1 } } })).toEqual(["object"]);
      expect(await namesWith(store, owner, { v: { a: "x" } })).toEqual([]);
      expect(await namesWith(store, owner, { v: [{ a: 1, b: 2 }, 1] })).toEqual([]);
    });

    test("keys and values may be long, empty or odd", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      const long = "ü".repeat(100_000);
      const all: Record<string, Tags> = {
        long: { [long]: `${long}1` },
        other: { [long]: `${long}2` },
        empty: { "": "" },
        odd: { "a\0b": "c\0d", "\ud800": "\udfff", "a:b": "c:d", "%": "_" },
      };
      for (const [name, tags] of Object.entries(all)) await newSandbox(store, { owner, name, tags });
      for (const [name, tags] of Object.entries(all)) expect(await namesWith(store, owner, tags)).toEqual([name]);
    });

    test("a filter uses the current tags", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      const { sandbox } = await newSandbox(store, { owner, tags: { a: "1", b: "2" } });
      await store.updateSandbox(sandbox.id, { tags: { a: "1", b: "3" } });
      expect(await namesWith(store, owner, { a: "1" })).toEqual([sandbox.name]);
      expect(await namesWith(store, owner, { b: "3" })).toEqual([sandbox.name]);
      expect(await namesWith(store, owner, { b: "2" })).toEqual([]);
      await store.updateSandbox(sandbox.id, { timeout: 1 });
      expect(await namesWith(store, owner, { b: "3" })).toEqual([sandbox.name]);
      await store.updateSandbox(sandbox.id, { tags: {} });
      expect(await namesWith(store, owner, { a: "1" })).toEqual([]);
    });

    test("each of a thousand tags on one sandbox is found", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      const tags = Object.fromEntries(Array.from({ length: 2500 }, (_, i) => [`key-${i}`, i]));
      const { sandbox } = await newSandbox(store, { owner, tags });
      expect(await namesWith(store, owner, { "key-0": 0, "key-2499": 2499 })).toEqual([sandbox.name]);
    });

    test("common and rare pairs are found along every order", async () => {
      const { store } = host();
      const owner = await newOwner(store);
      // More than the thousand rows from which a pair is common.
      const count = 1200;
      const create = (i: number) =>
        newSandbox(store, {
          owner,
          name: `n-${i.toString().padStart(5, "0")}`,
          createdAt: noon + (i % 10),
          stateChangedAt: noon - i,
          tags: { all: "yes", third: i % 3, ...(i % 500 === 0 && { rare: true }) },
        });
      for (let i = 0; i < count; i += 100) await Promise.all(Array.from({ length: 100 }, (_, j) => create(i + j)));
      for (const sortBy of ["createdAt", "name", "stateChangedAt", "currentSnapshotId"] as const) {
        const found = (tags: Tags, limit = 97) => namesWith(store, owner, tags, { sortBy, limit });
        const everything = await found({});
        expect(everything).toHaveLength(count);
        expect(await found({ all: "yes" })).toEqual(everything);
        expect(await found({ all: "yes", third: 1 })).toEqual(
          everything.filter((name) => Number(name.slice(2)) % 3 === 1),
        );
        expect(await found({ rare: true, all: "yes" }, 2)).toEqual(
          everything.filter((name) => Number(name.slice(2)) % 500 === 0),
        );
        expect(await found({ all: "no" })).toEqual([]);
      }
    });
  });
}
