/** Records that are read often: what is remembered is never older than the file. */

import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { z } from "zod";
import { tempDir } from "../../../../test/harness/harness.ts";
import { removeKept, writeKept } from "./kept-record.ts";
import { RememberedRecords } from "./remembered-records.ts";

const schema = z.object({ n: z.number() });

test("a record is read again once its file was replaced, made or deleted", async () => {
  const path = join(await tempDir(), "a.json");
  const records = new RememberedRecords();
  expect(await records.read(path, schema)).toBeUndefined();
  for (const n of [1, 2]) {
    await writeKept(path, { n });
    const first = await records.read(path, schema);
    expect(first).toEqual({ n });
    // the same object: it was not read again
    expect(await records.read(path, schema)).toBe(first);
  }
  await removeKept(path);
  expect(await records.read(path, schema)).toBeUndefined();
});

test("a damaged record is restored from its copy, and one without a good copy is missing", async () => {
  const folder = await tempDir();
  const path = join(folder, "a.json");
  const records = new RememberedRecords();
  await writeKept(path, { n: 1 });
  expect(await records.read(path, schema)).toEqual({ n: 1 });
  await replaced(path, "torn");
  expect(await records.read(path, schema)).toEqual({ n: 1 });
  for (const file of [path, join(folder, ".a.json.copy")]) await replaced(file, "torn");
  expect(await records.read(path, schema)).toBeUndefined();
});

/** as another program replaces a file: with an inode of its own */
async function replaced(path: string, text: string): Promise<void> {
  await rm(path);
  await writeFile(path, text);
}
