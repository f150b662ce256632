/** Which error of the core a failure of an engine, or of its disk, becomes. */

import { statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CompiledQuery, type DatabaseConnection, sql } from "kysely";
import { expect, test } from "vitest";
import { tempDir } from "../../../test/harness/harness.ts";
import { checkpoint, openEngine } from "./engines.ts";
import { ofDisk, translateErrors } from "./faults.ts";
import { Flush } from "./flush.ts";

test.each([
  ["SQLITE_FULL", { errcode: 13 }, "no-room", "the disk of the database is full"],
  ["SQLITE_IOERR_SHMSIZE", { errcode: 4874 }, "unavailable", "its disk has failed (disk I/O error)"],
  ["SQLITE_IOERR_WRITE", { errcode: 778 }, "unavailable", "its disk has failed (disk I/O error)"],
  ["SQLITE_CANTOPEN", { errcode: 14 }, "unavailable", "its disk has failed (disk I/O error)"],
  [
    "SQLITE_CORRUPT_INDEX",
    { errcode: 779 },
    "unavailable",
    "it is damaged (disk I/O error); stop the daemon and restore",
  ],
  ["SQLITE_NOTADB", { errcode: 26 }, "unavailable", "it is damaged (disk I/O error); stop the daemon and restore"],
  ["PostgreSQL's disk_full", { code: "53100" }, "no-room", "the disk of the database is full"],
])("%s is said in a sentence", async (_, fields, code, sentence) => {
  const failing: Pick<DatabaseConnection, "executeQuery"> = {
    executeQuery: async () => {
      throw Object.assign(new Error("disk I/O error"), fields);
    },
  };
  await translateErrors(failing as DatabaseConnection);
  const refused = failing.executeQuery(CompiledQuery.raw("select 1"));
  await expect(refused).rejects.toMatchObject({ code, message: expect.stringContaining(sentence) });
});

test("a commit that cannot be put on the disk is refused with a sentence, and the next one is tried", async () => {
  const path = join(await tempDir(), "log");
  const flush = new Flush({ path, rewrite: async () => undefined });
  await expect(flush.flushed()).rejects.toMatchObject({ code: "unavailable" });
  await expect(Promise.all([flush.flushed(), flush.flushed()])).rejects.toMatchObject({ code: "unavailable" });
  writeFileSync(path, "");
  await flush.flushed();
  const full = Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
  expect(ofDisk(full)).toMatchObject({ code: "no-room" });
});

test("after a flush that failed, nothing is acknowledged before all of the log was written elsewhere", async () => {
  const path = join(await tempDir(), "log");
  writeFileSync(path, "");
  const steps: string[] = [];
  const failing = new Set(["sync"]);
  const step = async (name: string) => {
    steps.push(name);
    if (failing.has(name)) throw new Error(`${name} failed`);
  };
  const flush = new Flush({ path, rewrite: () => step("rewrite"), sync: () => step("sync") });
  await expect(flush.flushed()).rejects.toMatchObject({ code: "unavailable" });
  failing.clear();
  failing.add("rewrite");
  await expect(flush.flushed()).rejects.toMatchObject({ code: "unavailable" });
  failing.clear();
  await flush.flushed();
  await flush.flushed();
  expect(steps).toEqual(["sync", "rewrite", "rewrite", "sync", "sync"]);
});

test("SQLite's log is empty once it was written into the database", async () => {
  const path = join(await tempDir(), "sandkeep.db");
  const engine = openEngine({ path });
  await sql`create table things (name text)`.execute(engine.db);
  await sql`insert into things values ('kept')`.execute(engine.db);
  expect(statSync(`${path}-wal`).size).toBeGreaterThan(0);
  await checkpoint(engine.db);
  expect(statSync(`${path}-wal`).size).toBe(0);
  await engine.close();
});
