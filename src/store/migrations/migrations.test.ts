/** Tests of the list of migrations; test/conformance/store/migrations.ts applies them, on each engine. */

import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempDir } from "../../../test/harness/harness.ts";
import { openStore } from "../sql-store.ts";
import { migrations } from "./migrations.ts";

test("every migration file is in the list, under its name, and their numbers have no gap", () => {
  const files = readdirSync(import.meta.dirname).filter((name) => /^\d{4}-[a-z-]+\.ts$/.test(name));
  expect(Object.keys(migrations)).toEqual(files.sort().map((name) => name.replace(/\.ts$/, "")));
  expect(files.map((name) => Number(name.slice(0, 4)))).toEqual(files.map((_, i) => i + 1));
});

test("a path or address without a database is a clear error", async () => {
  await expect(openStore({ path: join(await tempDir(), "no/such/directory/store.db") })).rejects.toThrow(
    "Cannot open the store",
  );
  await expect(openStore({ url: "postgres://127.0.0.1:1/none" })).rejects.toThrow("Cannot open the store");
});

test("a damaged database is named, with what to do", async () => {
  const path = join(await tempDir(), "store.db");
  writeFileSync(path, "not what it was");
  await expect(openStore({ path })).rejects.toThrow(
    `Cannot open the store "${path}": Cannot use the database: it is damaged (file is not a database); stop the daemon and`,
  );
});
