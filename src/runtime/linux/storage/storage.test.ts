/** Which kind of store a data directory has: decided once, and never changed silently. */

import { mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { refusal } from "../../../../test/harness/guest/file-guest.ts";
import { tempDir } from "../../../../test/harness/harness.ts";
import { closeStorage, openStorage, type StorageKind } from "./storage.ts";

const imageSize = 1 << 30;

async function dataDir(): Promise<string> {
  const directory = await tempDir();
  onTestFinished(() => closeStorage(directory));
  return directory;
}

const open = (dataDir: string, kind?: StorageKind) => openStorage({ dataDir, imageSize, ...(kind && { kind }) });

/** opens the store as a host without btrfs's tools would */
async function withoutTools<T>(use: () => Promise<T>): Promise<T> {
  const { PATH } = process.env;
  process.env.PATH = "/nowhere";
  try {
    return await use();
  } finally {
    process.env.PATH = PATH;
  }
}

describe("the kind of a store", () => {
  test("stays a plain folder, even if an image would be possible now", async () => {
    const directory = await dataDir();
    expect(await withoutTools(() => open(directory))).toMatchObject({ volumes: false });
    await writeFile(join(directory, "store/kept"), "kept");
    expect(await open(directory)).toMatchObject({ volumes: false });
    expect(await readFile(join(directory, "store/kept"), "utf8")).toBe("kept");
  });

  test("is not changed by a setting, and the error names the kind", async () => {
    const directory = await dataDir();
    await open(directory, "directory");
    expect(await refusal(open(directory, "image"))).toMatch(
      /^conflict: Cannot open the store ".*": it is a plain folder, and would be hidden by a btrfs image$/,
    );
    const other = await dataDir();
    await open(other, "image");
    await closeStorage(other);
    expect(await refusal(open(other, "directory"))).toMatch(
      /it is a btrfs image, and would be hidden by a plain folder$/,
    );
  });

  test("stays an image whose file is missing: the error says so, and no other is made", async () => {
    const directory = await dataDir();
    await open(directory, "image");
    await closeStorage(directory);
    await rm(join(directory, "store.btrfs"));
    expect(await refusal(open(directory))).toMatch(/its image ".*store.btrfs" is missing/);
    expect(await refusal(withoutTools(() => open(directory)))).toMatch(/its image ".*store.btrfs" is missing/);
  });

  test("is detected in a data directory that an older version made", async () => {
    const plain = await dataDir();
    await mkdir(join(plain, "store/layers"), { recursive: true });
    expect(await open(plain)).toMatchObject({ volumes: false });
    const image = await dataDir();
    await open(image, "image");
    await closeStorage(image);
    await rm(join(image, "store.json"));
    expect(await open(image)).toMatchObject({ volumes: true });
  });

  test("is detected where its record is damaged, and a damaged record of a store that is gone is refused", async () => {
    const directory = await dataDir();
    await open(directory, "image");
    await closeStorage(directory);
    await writeFile(join(directory, "store.json"), '{"ki');
    expect(await open(directory)).toMatchObject({ volumes: true });
    await closeStorage(directory);
    expect(JSON.parse(await readFile(join(directory, "store.json"), "utf8"))).toEqual({ kind: "image" });
    await rm(join(directory, "store.btrfs"));
    await writeFile(join(directory, "store.json"), "");
    expect(await refusal(open(directory))).toMatch(/store\.json" is damaged, and nothing is here that it was about/);
  });

  test("must be set where an image lies beside a used folder, as an older version may have left them", async () => {
    const directory = await dataDir();
    await mkdir(join(directory, "store/layers"), { recursive: true });
    await writeFile(join(directory, "store.btrfs"), "");
    expect(await refusal(open(directory))).toMatch(/there is a plain folder and an image.*store\.json/);
    await writeFile(join(directory, "store.json"), '{"kind":"directory"}');
    expect(await open(directory)).toMatchObject({ volumes: false });
  });
});

describe("a store that takes its room in advance", () => {
  const preallocated = { imageSize, kind: "image", preallocated: true } as const;
  const reserve = 2 ** 60;

  test("takes nothing, and is not made, where the reserve would not stay free", async () => {
    const directory = await dataDir();
    expect(await refusal(openStorage({ dataDir: directory, ...preallocated, reserve }))).toMatch(
      /Cannot reserve the room of the store ".*": it needs 1 GiB more, and its disk has .* left, of which .* are kept in reserve; free room on its disk, or start without SANDKEEP_STORE_SIZE$/,
    );
    expect(await readdir(directory)).toEqual(["store"]);
  });

  test("leaves one that exists as it is where its room is not there", async () => {
    const directory = await dataDir();
    await open(directory, "image");
    await closeStorage(directory);
    const image = join(directory, "store.btrfs");
    const { blocks } = await stat(image);
    expect(await refusal(openStorage({ dataDir: directory, ...preallocated, reserve }))).toMatch(
      /Cannot reserve the room of the store/,
    );
    expect((await stat(image)).blocks).toBe(blocks);
    await openStorage({ dataDir: directory, ...preallocated });
    expect((await stat(image)).blocks * 512).toBeGreaterThanOrEqual(imageSize);
    await closeStorage(directory);
    // It has its room, so there is nothing to refuse.
    await openStorage({ dataDir: directory, ...preallocated, reserve });
  });
});
