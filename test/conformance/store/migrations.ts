/**
 * How a database gets its schema: step by step, each completely or not at all, never backwards, also from old records.
 */

import { sql } from "kysely";
import { describe, expect, onTestFinished, test } from "vitest";
import { type Engine, openEngine, type StoreLocation } from "../../../src/store/engines/engines.ts";
import { execute, type Migration } from "../../../src/store/migrations/migration.ts";
import { type Migrations, migrate, migrations } from "../../../src/store/migrations/migrations.ts";
import { openStore } from "../../../src/store/sql-store.ts";
import { closedAtEnd, newOwner } from "./host.ts";

/** `place` returns the location of an empty database */
export function migrationsSuite(place: () => Promise<StoreLocation>): void {
  function opened(location: StoreLocation): Engine {
    const engine = openEngine(location);
    onTestFinished(() => engine.close());
    return engine;
  }

  describe("migrations", () => {
    const first = { "0001-first": statements("create table things (a text)") };
    const second = {
      "0002-second": statements("alter table things add column b text", "create index of_b on things (b)"),
    };

    test("are applied in order, once, and new ones later", async () => {
      const engine = opened(await place());
      await migrate(engine, undefined, first);
      await sql.raw("insert into things (a) values ('kept')").execute(engine.db);
      await migrate(engine, undefined, { ...first, ...second });
      await migrate(engine, undefined, { ...first, ...second });
      expect(await applied(engine)).toEqual(["0001-first", "0002-second"]);
      expect((await sql.raw("select a, b from things").execute(engine.db)).rows).toEqual([{ a: "kept", b: null }]);
    });

    test("one that fails leaves nothing of itself, and those before it stay", async () => {
      const engine = opened(await place());
      const bad = { "0002-bad": statements("create table others (a text)", "insert into nowhere values (1)") };
      await expect(migrate(engine, undefined, { ...first, ...bad })).rejects.toThrow("nowhere");
      expect(await applied(engine)).toEqual(["0001-first"]);
      const better = { "0002-better": statements("create table others (a text)") };
      await migrate(engine, undefined, { ...first, ...better });
      expect(await applied(engine)).toEqual(["0001-first", "0002-better"]);
    });

    test("programs that open one database at the same time take turns", async () => {
      const location = await place();
      const engines = Array.from({ length: 4 }, () => opened(location));
      await Promise.all(engines.map((engine) => migrate(engine)));
      expect(await applied(opened(location))).toEqual(Object.keys(migrations));
    });

    test("a clock that is set back between two migrations does no harm", async () => {
      const engine = opened(await place());
      await migrate(engine, undefined, first);
      await engine.db.updateTable("migrations").set({ timestamp: "2999-01-01T00:00:00.000Z" }).execute();
      await migrate(engine, undefined, { ...first, ...second });
      const third = { "0003-third": statements("alter table things add column c text") };
      await migrate(engine, undefined, { ...first, ...second, ...third });
      expect(await applied(engine)).toHaveLength(3);
    });

    test.each(["of today", "of before the Migrator"])(
      "a database of a newer program, with records %s, is refused and not changed",
      async (records) => {
        const location = await place();
        await (await openStore(location)).close();
        const engine = opened(location);
        if (records === "of today") {
          const timestamp = new Date(0).toISOString();
          await engine.db.insertInto("migrations").values({ name: "0099-of-the-future", timestamp }).execute();
        } else {
          await writeOldRecords(engine, Object.keys(migrations).length);
          await sql.raw("insert into migrations values (99, 'of the future', 1)").execute(engine.db);
        }
        const before = (await sql.raw("select * from migrations order by name").execute(engine.db)).rows;
        await expect(openStore(location)).rejects.toMatchObject({
          code: "unsupported",
          message: expect.stringMatching(
            /^Cannot open the store: a newer Sandkeep wrote it \(schema 99, this one knows up to \d+\)$/,
          ),
        });
        expect((await sql.raw("select * from migrations order by name").execute(engine.db)).rows).toEqual(before);
      },
    );

    test("records from before the Migrator are taken over, and missing migrations are applied", async () => {
      const location = await place();
      const engine = opened(location);
      const some: Migrations = Object.fromEntries(Object.entries(migrations).slice(0, 7));
      await migrate(engine, undefined, some);
      await writeOldRecords(engine, 7);
      // Several programs may find such records at once.
      const stores = await Promise.all([openStore(location), openStore(location)]);
      for (const store of stores) closedAtEnd(store);
      expect(await applied(engine)).toEqual(Object.keys(migrations));
      const { rows } = await sql.raw("select timestamp from migrations where number = 7").execute(engine.db);
      expect(rows).toEqual([{ timestamp: new Date(1_700_000_000_007).toISOString() }]);
      for (const store of stores) await newOwner(store);
    });

    test("programs from before the Migrator find the number of the schema", async () => {
      const engine = opened(await place());
      await migrate(engine);
      const { rows } = await sql.raw("select max(number) as last from migrations").execute(engine.db);
      expect(rows).toEqual([{ last: Object.keys(migrations).length }]);
    });
  });
}

function statements(...texts: string[]): Migration {
  return (db) => execute(db, texts);
}

async function applied({ db }: Engine): Promise<string[]> {
  const rows = await db.selectFrom("migrations").select("name").orderBy("number").execute();
  return rows.map(({ name }) => name);
}

/** creates the table that programs wrote before Kysely's Migrator, as after this many migrations */
async function writeOldRecords({ db }: Engine, count: number): Promise<void> {
  const rows = Array.from({ length: count }, (_, i) => `(${i + 1}, 'step ${i + 1}', ${1_700_000_000_001 + i})`);
  for (const statement of [
    "drop table migrations",
    "drop table migrations_lock",
    "create table migrations (number integer primary key, name text not null, applied_at bigint not null)",
    `insert into migrations values ${rows.join(", ")}`,
  ])
    await sql.raw(statement).execute(db);
}
