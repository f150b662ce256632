/** When the host is searched: what is hidden, and how, is tested in test/security/host-files.test.ts. */

import { existsSync } from "node:fs";
import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { tempDir } from "../../../../test/harness/harness.ts";
import { HostMasks, placeOfMasks } from "./host-masks.ts";

const minute = 60_000;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });
});
afterEach(() => {
  vi.useRealTimers();
});

test("a restart searches the host again when the last search is ten minutes old, not before", async () => {
  const { restart } = await searched();
  vi.advanceTimersByTime(9 * minute);
  const { search } = await restart();
  vi.advanceTimersByTime(minute - 1);
  expect(search).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1);
  expect(search).toHaveBeenCalledTimes(1);
  await search.mock.results[0]?.value;
  // It was remembered, too.
  expect(await searchesAtOnce(await restart())).toBe(false);
  vi.advanceTimersByTime(10 * minute);
  expect(search).toHaveBeenCalledTimes(2);
});

test("a restart searches at once after a long pause, in another boot of the host, and if the clock was set back", async () => {
  const { restart } = await searched();
  expect(await searchesAtOnce(await restart())).toBe(false);
  expect(await searchesAtOnce(await restart("another boot"))).toBe(true);
  expect(await searchesAtOnce(await restart("another boot"))).toBe(false);
  vi.setSystemTime(Date.now() - minute);
  expect(await searchesAtOnce(await restart("another boot"))).toBe(true);
  vi.setSystemTime(Date.now() + 11 * minute);
  expect(await searchesAtOnce(await restart("another boot"))).toBe(true);
});

test("a restart searches at once if the last search was by other rules, or its record is of an older version", async () => {
  for (const change of [{ version: 0 }, { version: undefined }, { searchedAt: undefined }]) {
    const { restart, index } = await searched();
    const record = JSON.parse(await readFile(index, "utf8"));
    await writeFile(index, JSON.stringify({ ...record, ...change }));
    expect([change, await searchesAtOnce(await restart())]).toEqual([change, true]);
  }
});

test("masks in a store with volumes have no archive, whose number another file would have", async () => {
  const folder = await tempDir();
  const store = join(folder, "store");
  await mkdir(store);
  expect(placeOfMasks(folder, store, true)).toEqual({ folder: join(store, "masks"), hasArchive: false });
  expect(placeOfMasks(folder, store, false)).toEqual({ folder: join(store, "masks"), hasArchive: true });
});

/** masks that have searched a directory, and a function that opens them again */
async function searched() {
  const folder = await tempDir();
  const usr = join(folder, "usr");
  await mkdir(join(usr, "bin"), { recursive: true });
  await writeFile(join(usr, "bin/open"), "");
  await chmod(join(usr, "bin/open"), 0o755);
  const restart = async (bootId = "this boot") => {
    const masks = new HostMasks({
      folder: join(folder, "masks"),
      hasArchive: true,
      filesAt: () => Promise.reject(new Error("Nothing is hidden here")),
      bootId,
      changed: () => undefined,
      logError: (error) => {
        throw error;
      },
    });
    const search = vi.spyOn(masks, "search");
    await masks.open();
    onTestFinished(() => masks.close());
    return { masks, search };
  };
  const { masks } = await restart();
  expect(await masks.above([usr])).toEqual([]);
  await masks.close();
  const index = join(folder, "masks/index.json");
  while (!existsSync(index)) await nextTurn();
  return { restart, index };
}

async function searchesAtOnce({ search }: { search: { mock: { results: { value: unknown }[] } } }): Promise<boolean> {
  vi.advanceTimersByTime(1);
  await Promise.all(search.mock.results.map(({ value }) => value));
  return search.mock.results.length > 0;
}
