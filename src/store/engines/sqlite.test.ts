/** Tests that apply to SQLite alone: its file after a crash, and together with another program. */

import { spawn } from "node:child_process";
import { chmod, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import { setImmediate } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { tempDir } from "../../../test/harness/harness.ts";
import { openStore } from "../sql-store.ts";

test("what was acknowledged is there after the program was killed", async () => {
  const path = join(await tempDir(), "store.db");
  const store = JSON.stringify(join(import.meta.dirname, "../sql-store.ts"));
  const program = `
    const { openStore } = await import(${store});
    const store = await openStore({ path: ${JSON.stringify(path)} });
    for (let i = 0; ; i++) {
      await store.insertTeam({ id: "team_" + i, slug: "slug-" + i, createdAt: i });
      console.log(i);
    }`;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", program], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let acknowledged = -1;
  for await (const line of createInterface(child.stdout)) {
    acknowledged = Number(line);
    if (acknowledged === 100) child.kill("SIGKILL");
  }
  const opened = await openStore({ path });
  onTestFinished(() => opened.close());
  expect(acknowledged).toBeGreaterThanOrEqual(100);
  expect((await opened.listTeams()).length).toBeGreaterThan(acknowledged);
});

test("a write waits while another program has the file locked, and holds up nobody meanwhile", async () => {
  const path = join(await tempDir(), "store.db");
  const store = await openStore({ path });
  onTestFinished(() => store.close());
  const other = new DatabaseSync(path);
  other.exec("begin immediate");
  let done = false;
  const write = store.insertTeam({ id: "team_1", slug: "one", createdAt: 1 }).then(() => {
    done = true;
  });
  // Other work goes on, and enough of it that the write was tried.
  for (let turn = 0; turn < 100; turn++) await setImmediate();
  expect(done).toBe(false);
  other.exec("commit");
  other.close();
  await write;
  expect(await store.findTeam("one")).toMatchObject({ id: "team_1" });
});

test("only the owner of the files may read them, whatever the directory lets others do", async () => {
  const directory = await tempDir();
  await chmod(directory, 0o755);
  const path = join(directory, "store.db");
  // One that was left behind readable.
  new DatabaseSync(`${path}-claim`).close();
  await chmod(`${path}-claim`, 0o644);
  for (let opened = 0; opened < 2; opened++) {
    const store = await openStore({ path });
    await store.claim();
    await store.insertTeam({ id: `team_${opened}`, slug: `slug-${opened}`, createdAt: 1 });
    const files = await readdir(directory);
    expect(files).toEqual(expect.arrayContaining(["store.db", "store.db-claim", "store.db-shm", "store.db-wal"]));
    for (const file of files) expect((await stat(join(directory, file))).mode & 0o777, file).toBe(0o600);
    await store.close();
    await chmod(path, 0o644);
  }
});
