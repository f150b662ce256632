/** What a start says if the database of a used data directory is missing. */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempDir } from "../../test/harness/harness.ts";
import { requireDatabase } from "./missing-database.ts";
import { DirectoryRecoveryFiles } from "./recovery-files.ts";

async function usedDirectory() {
  const dataDir = await tempDir();
  const files = new DirectoryRecoveryFiles(dataDir);
  files.setIdentity("an-id");
  const refusal = (url?: string) => {
    try {
      requireDatabase(dataDir, url === undefined ? { path: join(dataDir, "sandkeep.db") } : { url }, files);
    } catch (error) {
      return String(error);
    }
    return undefined;
  };
  return { dataDir, files, refusal };
}

test("a directory that was used with PostgreSQL asks for the setting first", async () => {
  const { files, refusal } = await usedDirectory();
  files.recordDatabaseKind("postgresql");
  expect(refusal()).toMatch(
    /it was used with PostgreSQL\. Set SANDKEEP_DATABASE_URL to that database\. If it is lost, run/,
  );
  expect(refusal()).not.toContain("sandkeep.db");
  expect(refusal("postgres://db.test/a")).toBeUndefined();
});

test("a directory of an older version names both kinds, and a file that is there is enough", async () => {
  const { dataDir, files, refusal } = await usedDirectory();
  expect(refusal()).toMatch(
    /sandkeep\.db" is missing\. If it was used with PostgreSQL, set SANDKEEP_DATABASE_URL\. Restore/,
  );
  files.recordDatabaseKind("sqlite");
  expect(refusal()).toMatch(/sandkeep\.db" is missing\. Restore it from a backup; or run/);
  writeFileSync(join(dataDir, "sandkeep.db"), "");
  expect(refusal()).toBeUndefined();
  expect(JSON.parse(readFileSync(join(dataDir, "identity.json"), "utf8"))).toEqual({ id: "an-id", database: "sqlite" });
  expect(files.identity()).toBe("an-id");
});
