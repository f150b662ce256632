/** Tests of the thread that empties SQLite's log: others go on meanwhile, and nothing of it is left. */

import { existsSync } from "node:fs";
import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import { tempDir } from "../../../test/harness/harness.ts";
import { openStore } from "../sql-store.ts";
import { Checkpoints } from "./checkpoints.ts";

test("what was committed gets from the log into the database while the store is in use", async () => {
  const directory = await tempDir();
  const path = join(directory, "store.db");
  const store = await openStore({ path });
  for (let i = 0; i < 150; i++) await store.insertTeam({ id: `team_${i}`, slug: `slug-${i}`, createdAt: i });
  const copy = join(directory, "copy.db");
  await expect
    .poll(async () => {
      // without the log
      await copyFile(path, copy);
      return teamsIn(copy);
    })
    .toBeGreaterThanOrEqual(50);
  await store.close();
  expect(existsSync(`${path}-wal`)).toBe(false);
});

function teamsIn(path: string): number {
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    return (database.prepare("select count(*) as count from teams").get() as { count: number }).count;
  } catch {
    return 0;
  } finally {
    database.close();
  }
}

test("work that must not meet a checkpoint waits for the one that runs, and the next waits for it", async () => {
  const path = join(await tempDir(), "plain.db");
  const database = new DatabaseSync(path);
  database.exec("pragma journal_mode = wal; pragma wal_autocheckpoint = 0; create table t (x)");
  const checkpoints = new Checkpoints(path);
  onTestFinished(async () => {
    await checkpoints.close();
    database.close();
  });
  const commit = () => {
    database.exec("insert into t values (randomblob(100000))");
    checkpoints.committed();
  };
  for (let i = 0; i < 100; i++) commit();
  const busy = await checkpoints.without(async () => {
    for (let i = 0; i < 100; i++) commit();
    return database.prepare("pragma wal_checkpoint(truncate)").get();
  });
  expect(busy).toMatchObject({ busy: 0 });
});

test("a thread that cannot open the database is given up, and closing does not wait for it", async () => {
  const checkpoints = new Checkpoints(join(await tempDir(), "no/such/folder.db"));
  for (let i = 0; i < 250; i++) checkpoints.committed();
  await checkpoints.without(async () => undefined);
  await checkpoints.close();
});
