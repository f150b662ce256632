/** The key that seals secrets: another one, or none, is refused where it was used before. */

import { randomBytes } from "node:crypto";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempDir } from "../../test/harness/harness.ts";
import { openSeal } from "./secrets.ts";

test("a new data directory gets a key, and what it seals can be opened with it again", async () => {
  const file = join(await tempDir(), "secret.key");
  const sealed = openSeal(file).seal("secret");
  expect(openSeal(file).open(sealed)).toBe("secret");
});

test("a key that is missing, damaged or another one is refused and kept, until its proof is given up", async () => {
  const file = join(await tempDir(), "secret.key");
  openSeal(file);
  const key = readFileSync(file);
  rmSync(file);
  expect(() => openSeal(file)).toThrow(`"${file}" is missing; restore it from a backup, or, to give up`);
  expect(existsSync(file)).toBe(false);
  for (const other of [randomBytes(32), key.subarray(0, 16), Buffer.alloc(0)]) {
    writeFileSync(file, other);
    expect(() => openSeal(file)).toThrow(`"${file}" is not the key that was used here before; restore it`);
    expect(readFileSync(file)).toEqual(other);
  }
  writeFileSync(file, key);
  openSeal(file);
  rmSync(file);
  rmSync(`${file}.proof`);
  openSeal(file);
  expect(readFileSync(file)).not.toEqual(key);
});

test("a key of an older version, which has no proof, is used if it has the length of one", async () => {
  const file = join(await tempDir(), "secret.key");
  writeFileSync(file, randomBytes(16));
  expect(() => openSeal(file)).toThrow("is not a key of 32 bytes; restore it from a backup");
  writeFileSync(file, randomBytes(32));
  openSeal(file);
  expect(existsSync(`${file}.proof`)).toBe(true);
});
