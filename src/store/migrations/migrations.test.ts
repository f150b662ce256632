/** Tests of how a database comes to its schema: step by step, each whole or not at all, never backwards. */

import { join } from "node:path";
import { sql } from "kysely";
import { expect, onTestFinished, test } from "vitest";
import { tempDir } from "../../../test/harness/harness.ts";
import { type Engine, openEngine } from "../engines/engines.ts";
import { openStore } from "../sql-store.ts";
import type { Migration } from "./migration.ts";
import { migrate } from "./migrations.ts";

const now = () => 1;

async function newEngine(): Promise<{ engine: Engine; path: string }> {
  const path = join(await tempDir(), "store.db");
  const engine = openEngine({ path });
  onTestFinished(() => engine.close());
  return { engine, path };
}

function step(name: string, ...statements: string[]): Migration {
  return { name, statements: () => statements };
}

async function applied({ db }: Engine): Promise<string[]> {
  const rows = await db.selectFrom("migrations").select("name").orderBy("number").execute();
  return rows.map(({ name }) => name);
}

test("steps are applied in order, once, and further ones later", async () => {
  const { engine } = await newEngine();
  const first = step("first", "create table things (a text)");
  const second = step("second", "alter table things add column b text", "create index of_b on things (b)");
  await migrate(engine, now, [first]);
  await sql.raw("insert into things (a) values ('kept')").execute(engine.db);
  await migrate(engine, now, [first, second]);
  await migrate(engine, now, [first, second]);
  expect(await applied(engine)).toEqual(["first", "second"]);
  expect((await sql.raw("select a, b from things").execute(engine.db)).rows).toEqual([{ a: "kept", b: null }]);
});

test("a step that fails leaves nothing of itself", async () => {
  const { engine } = await newEngine();
  const good = step("good", "create table things (a text)");
  const bad = step("bad", "create table others (a text)", "insert into nowhere values (1)");
  await expect(migrate(engine, now, [good, bad])).rejects.toThrow("nowhere");
  expect(await applied(engine)).toEqual(["good"]);
  await migrate(engine, now, [good, step("better", "create table others (a text)")]);
  expect(await applied(engine)).toEqual(["good", "better"]);
});

test("a database that a newer program wrote is refused and left as it is", async () => {
  const { engine, path } = await newEngine();
  await (await openStore({ path })).close();
  await engine.db.insertInto("migrations").values({ number: 99, name: "of the future", applied_at: 1 }).execute();
  await expect(openStore({ path })).rejects.toMatchObject({
    code: "unsupported",
    message: expect.stringMatching(/^Cannot open the store: a newer Sandkeep wrote it \(schema 99, .*\)$/),
  });
  expect(await applied(engine)).toContain("of the future");
});

test("a place where there cannot be a database is said to be none", async () => {
  await expect(openStore({ path: join(await tempDir(), "no/such/directory/store.db") })).rejects.toThrow(
    "Cannot open the store",
  );
  await expect(openStore({ url: "postgres://127.0.0.1:1/none" })).rejects.toThrow("Cannot open the store");
});
