/** Records that are written twice: which damage they survive, and that a copy never holds an outdated record. */

import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { z } from "zod";
import { tempDir } from "../../../../test/harness/harness.ts";
import { lastLoss, readKept, readKeptSync, writeKept, writeKeptSync } from "./kept-record.ts";

const schema = z.object({ n: z.number() });
const parse = (text: string) => (text === "" ? undefined : text);

test("a damaged record is restored from its copy, and the damaged file is kept", async () => {
  const folder = await tempDir();
  const path = join(folder, "a.json");
  await writeKept(path, { n: 1 });
  await writeFile(path, "torn");
  expect(await readKept(path, schema)).toEqual({ n: 1 });
  expect(await readFile(`${path}.damaged`, "utf8")).toBe("torn");
  expect(schema.parse(JSON.parse(await readFile(path, "utf8")))).toEqual({ n: 1 });
  expect(await lastLoss(folder)).toBe(0);
});

test("a record whose copy is damaged too is set aside, and counts as lost until it is restored", async () => {
  const folder = await tempDir();
  const path = join(folder, "a.json");
  writeKeptSync(path, "1");
  for (const file of [path, join(folder, ".a.json.copy")]) await writeFile(file, "");
  for (const _start of ["first", "second"]) expect(readKeptSync(path, parse)).toBe("damaged");
  expect(await lastLoss(folder)).toBeGreaterThan(0);
  await writeFile(path, "1");
  expect(readKeptSync(path, parse)).toBe("1");
  expect(await lastLoss(folder)).toBe(0);
});

test("deleting a record that was set aside gives it up, though its copies were damaged too", async () => {
  const folder = await tempDir();
  const [path, spare] = [join(folder, "a.json"), join(folder, "spare.json")];
  writeKeptSync(path, "1");
  for (const file of [path, join(folder, ".a.json.copy"), spare]) await writeFile(file, "");
  expect(readKeptSync(path, parse, spare)).toBe("damaged");
  await rm(`${path}.damaged`);
  expect(readKeptSync(path, parse, spare)).toBeUndefined();
});

test("a missing record is restored from its copy", async () => {
  const folder = await tempDir();
  const path = join(folder, "a.json");
  writeKeptSync(path, "1");
  await rm(path);
  expect(readKeptSync(path, parse)).toBe("1");
  expect(await readFile(path, "utf8")).toBe("1");
});

test.each(["torn", "missing"])("a %s record whose copy is damaged is restored from its spare", async (how) => {
  const folder = await tempDir();
  const [path, spare] = [join(folder, "a.json"), join(folder, "spare.json")];
  for (const file of [path, spare]) writeKeptSync(file, "1");
  for (const file of [path, join(folder, ".a.json.copy")]) await writeFile(file, "");
  if (how === "missing") await rm(path);
  expect(readKeptSync(path, parse, spare)).toBe("1");
  expect(readKeptSync(path, parse)).toBe("1");
});

test("a record is written even if its copy cannot be, and no older copy stays", async () => {
  const folder = await tempDir();
  const path = join(folder, "a.json");
  const copy = join(folder, ".a.json.copy");
  writeKeptSync(path, "1");
  await mkdir(`${copy}.new`);
  writeKeptSync(path, "2");
  expect(readKeptSync(path, parse)).toBe("2");
  await expect(readFile(copy)).rejects.toThrow("ENOENT");
  await rm(`${copy}.new`, { recursive: true });
});
