/** Statements that are compiled once: when they run, and that a transaction is stored completely or not at all. */

import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setImmediate } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { tempDir } from "../../../test/harness/harness.ts";
import { migrate } from "../migrations/migrations.ts";
import { type Engine, openEngine } from "./engines.ts";
import { statement, step } from "./statements.ts";

async function engineIn(directory: string): Promise<Engine> {
  const engine = openEngine({ path: join(directory, "store.db") });
  onTestFinished(() => engine.close());
  await migrate(engine);
  return engine;
}

function teamsOf({ db, statements }: Engine) {
  const insertion = statement((team: { id: string; slug: string; created_at: number }) =>
    db.insertInto("teams").values(team),
  );
  const ids = statement(() => db.selectFrom("teams").select("id").orderBy("id"));
  return {
    insertion: (id: string) => insertion({ id, slug: id, created_at: 1 }),
    ids: async () => (await statements.all(ids({}))).map(({ id }) => id),
  };
}

test("a statement runs at once, with the values of its own call", async () => {
  const directory = await tempDir();
  const engine = await engineIn(directory);
  const { insertion, ids } = teamsOf(engine);
  const other = new DatabaseSync(join(directory, "store.db"));
  onTestFinished(() => other.close());
  const stored = Promise.all([engine.statements.all(insertion("a")), engine.statements.all(insertion("b"))]);
  expect(other.prepare("select count(*) as count from teams").get()).toMatchObject({ count: 2 });
  await stored;
  expect(await ids()).toEqual(["a", "b"]);
});

test("a statement waits while the query layer has a transaction open, and does not become part of it", async () => {
  const engine = await engineIn(await tempDir());
  const { insertion, ids } = teamsOf(engine);
  const held = Promise.withResolvers<void>();
  const open = Promise.withResolvers<void>();
  const undone = engine.db.transaction().execute(async (tx) => {
    await tx.executeQuery(insertion("undone"));
    open.resolve();
    await held.promise;
    throw new Error("undo");
  });
  undone.catch(() => undefined);
  await open.promise;
  const done: string[] = [];
  const stored = [
    engine.statements.all(insertion("a")).then(() => done.push("a")),
    engine.statements.transaction(() => step(insertion("b"))).then(() => done.push("b")),
  ];
  for (let turn = 0; turn < 20; turn++) await setImmediate();
  expect(done).toEqual([]);
  held.resolve();
  await expect(undone).rejects.toThrow("undo");
  await Promise.all(stored);
  expect(await ids()).toEqual(["a", "b"]);
});

test("a transaction that fails stores nothing, and the next one works", async () => {
  const engine = await engineIn(await tempDir());
  const { insertion, ids } = teamsOf(engine);
  const failing = engine.statements.transaction(function* () {
    yield insertion("a");
    throw new Error("no further");
  });
  await expect(failing).rejects.toThrow("no further");
  const taken = engine.statements.transaction(function* () {
    yield insertion("b");
    yield insertion("b");
  });
  await expect(taken).rejects.toMatchObject({ code: "exists" });
  await engine.statements.transaction(() => step(insertion("c")));
  expect(await ids()).toEqual(["c"]);
});

test("a statement waits while another program has locked the file, and happens once", async () => {
  const directory = await tempDir();
  const engine = await engineIn(directory);
  const { insertion, ids } = teamsOf(engine);
  const other = new DatabaseSync(join(directory, "store.db"));
  other.exec("begin immediate");
  const stored = Promise.all([
    engine.statements.all(insertion("a")),
    engine.statements.transaction(() => step(insertion("b"))),
  ]);
  for (let turn = 0; turn < 20; turn++) await setImmediate();
  expect(await ids()).toEqual([]);
  other.exec("commit");
  other.close();
  await stored;
  expect(await ids()).toEqual(["a", "b"]);
});

test("a text that only one of the engines would accept is refused", async () => {
  const engine = await engineIn(await tempDir());
  const { insertion } = teamsOf(engine);
  await expect(engine.statements.all(insertion("a\0b"))).rejects.toMatchObject({ code: "invalid" });
});
