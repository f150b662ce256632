/** Tests of the archive of locales, made by this host's own program. */

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { copyFile, cp, mkdir, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { tempDir } from "../../../../test/harness/harness.ts";
import { localeArchiveFacts, localeArchivePath, makeLocaleArchive } from "./locale-archive.ts";

/** a /usr with this host's program and the files of the locale that sandboxes have */
async function usrWithLocale(): Promise<string> {
  const usr = await tempDir();
  await mkdir(join(usr, "bin"));
  await mkdir(join(usr, "lib/locale"), { recursive: true });
  await symlink("/usr/bin/localedef", join(usr, "bin/localedef"));
  await cp("/usr/lib/locale/C.utf8", join(usr, "lib/locale/C.utf8"), { recursive: true });
  return usr;
}

async function localesIn(archive: string): Promise<string> {
  const folder = await tempDir();
  await mkdir(join(folder, "usr/lib/locale"), { recursive: true });
  await copyFile(archive, join(folder, "usr", localeArchivePath));
  return (await promisify(execFile)("localedef", [`--prefix=${folder}`, "--list-archive"])).stdout;
}

test("the archive has the locale of sandboxes, beside those of the host's own archive", async () => {
  const usr = await usrWithLocale();
  const [first, second] = [join(usr, "first"), join(usr, "second")];
  expect(await makeLocaleArchive(usr, first)).toBe(true);
  expect(await localesIn(first)).toBe("C.utf8\n");
  // The host's archive has it under another name.
  await cp(join(usr, "lib/locale/C.utf8"), join(usr, "lib/locale/xx_XX.utf8"), { recursive: true });
  const prefix = await tempDir();
  await mkdir(join(prefix, "usr/lib/locale"), { recursive: true });
  const add = [`--prefix=${prefix}`, "--quiet", "--add-to-archive", join(usr, "lib/locale/xx_XX.utf8")];
  await promisify(execFile)("localedef", add);
  await copyFile(join(prefix, "usr", localeArchivePath), join(usr, localeArchivePath));
  expect(await makeLocaleArchive(usr, second)).toBe(true);
  expect((await localesIn(second)).split("\n").sort()).toEqual(["", "C.utf8", "xx_XX.utf8"]);
});

test("what it is made from changes with the host's files, and is nothing where one is missing", async () => {
  const usr = await usrWithLocale();
  const facts = await localeArchiveFacts(usr);
  expect(facts).toBeDefined();
  expect(await localeArchiveFacts(usr)).toBe(facts);
  await writeFile(join(usr, localeArchivePath), "an archive");
  const others = await localeArchiveFacts(usr);
  expect(others).toBeDefined();
  expect(others).not.toBe(facts);
  await truncate(join(usr, localeArchivePath), (64 << 20) + 1);
  expect(await localeArchiveFacts(usr)).toBeUndefined();
  await rm(join(usr, localeArchivePath));
  await rm(join(usr, "bin/localedef"));
  expect(await localeArchiveFacts(usr)).toBeUndefined();
});

test("a host whose program fails has no archive", async () => {
  const usr = await usrWithLocale();
  await rm(join(usr, "bin/localedef"));
  await symlink("/usr/bin/false", join(usr, "bin/localedef"));
  expect(await makeLocaleArchive(usr, join(usr, "made"))).toBe(false);
  expect(existsSync(join(usr, "made"))).toBe(false);
});
