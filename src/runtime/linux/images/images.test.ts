/** What names of images stand for, over time. */

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { refusal } from "../../../../test/harness/file-guest.ts";
import { tempDir } from "../../../../test/harness/harness.ts";
import { ImageStore, imageReference } from "./images.ts";

async function openImages(): Promise<{ images: ImageStore; path: string }> {
  const path = await tempDir();
  const images = new ImageStore(path);
  await images.open();
  return { images, path };
}

function image(name: string, ...layers: string[]) {
  return { name, layers, env: { PATH: "/bin" }, user: "root", cwd: "/", createdAt: 1 };
}

test("a name stands for what was put last, and references for what they always meant", async () => {
  const { images } = await openImages();
  const first = await images.put(image("app", "one"));
  const second = await images.put(image("app", "two", "one"));
  expect(await images.get("app")).toEqual(second);
  expect(await images.get(imageReference(first))).toEqual(first);
  expect(await images.list()).toEqual([second]);
});

test("names with slashes and colons are plain files in one folder", async () => {
  const { images, path } = await openImages();
  await images.put(image("ghcr.io/me/app:1.0", "one"));
  expect(
    (await readdir(join(path, "images"))).every((name) =>
      /^([A-Za-z0-9.%@-]+\.json|\.[A-Za-z0-9.%@-]+\.json\.copy)$/.test(name),
    ),
  ).toBe(true);
  expect((await images.list()).map(({ name }) => name)).toEqual(["ghcr.io/me/app:1.0"]);
});

test("what is no name is no image, and cannot become one", async () => {
  const { images } = await openImages();
  for (const name of ["..", "../x", "/etc/passwd", "A", "a\0b", "x@../../y", "x@", ""]) {
    expect(await images.get(name), name).toBeUndefined();
    expect(await refusal(images.put(image(name, "one"))), name).toMatch(/^invalid: Cannot name an image/);
    expect(await refusal(images.delete(name)), name).toMatch(/^not-found: Cannot delete image/);
  }
});

test("a deleted or replaced version goes when nothing means it, and not before", async () => {
  const { images, path } = await openImages();
  const old = await images.put(image("app", "one"));
  const current = await images.put(image("app", "two"));
  const other = await images.put(image("other", "three"));
  await images.delete("other");
  await images.collect(async () => [imageReference(old)], new Set(["three"]));
  expect(await images.get(imageReference(old))).toEqual(old);
  expect(await images.get(imageReference(other))).toEqual(other);
  expect(await images.layersInUse([imageReference(old)])).toEqual(new Set(["one", "two"]));
  await images.collect(async () => [], new Set());
  expect((await readdir(join(path, "images"))).sort()).toEqual([
    ".app.json.copy",
    `.app@${current.version}.json.copy`,
    "app.json",
    `app@${current.version}.json`,
  ]);
});
