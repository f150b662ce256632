/** Which content the names of images stand for, over time. */

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { refusal } from "../../../../test/harness/guest/file-guest.ts";
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

function claims(...layers: string[]): () => Promise<Set<string>> {
  return async () => new Set(layers);
}

test("a name stands for the image that was put last, and a reference always for the same version", async () => {
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

test("an invalid name is neither found nor accepted", async () => {
  const { images } = await openImages();
  for (const name of ["..", "../x", "/etc/passwd", "A", "a\0b", "x@../../y", "x@", ""]) {
    expect(await images.get(name), name).toBeUndefined();
    expect(await refusal(images.put(image(name, "one"))), name).toMatch(/^invalid: Cannot name an image/);
    expect(await refusal(images.delete(name)), name).toMatch(/^not-found: Cannot delete image/);
  }
});

test("a deleted or replaced version is collected when nothing refers to it, and not before", async () => {
  const { images, path } = await openImages();
  const old = await images.put(image("app", "one"));
  const current = await images.put(image("app", "two"));
  const other = await images.put(image("other", "three"));
  await images.delete("other");
  await images.collect(async () => [imageReference(old)], claims("three"));
  expect(await images.get(imageReference(old))).toEqual(old);
  expect(await images.get(imageReference(other))).toEqual(other);
  expect(await images.layersInUse([imageReference(old)])).toEqual(new Set(["one", "two"]));
  await images.collect(async () => [], claims());
  expect((await readdir(join(path, "images"))).sort()).toEqual([
    ".app.json.copy",
    `.app@${current.version}.json.copy`,
    "app.json",
    `app@${current.version}.json`,
  ]);
});

test("a version that is made while others are collected stays, as its layers may be claimed by then", async () => {
  const { images } = await openImages();
  let made = await images.put(image("app", "one"));
  await images.collect(
    async () => [],
    async () => {
      // Claimed from now on, and still without its name.
      made = await images.put(image("app", "two"));
      await images.delete("app");
      return new Set();
    },
  );
  expect(await images.get(imageReference(made))).toEqual(made);
});

test("a team's image comes before the host's of the same name, and other teams neither find nor list it", async () => {
  const { images } = await openImages();
  const hosts = await images.put(image("app", "one"));
  const mine = await images.put({ ...image("app", "two"), owner: "team_a" });
  expect(await images.get("app", "team_a")).toEqual(mine);
  expect(await images.get("app", "team_b")).toEqual(hosts);
  expect(await images.get("app")).toEqual(hosts);
  expect(await images.get(imageReference(mine))).toEqual(mine);
  // The key is for our own records: no caller reaches another team's image with it.
  expect(await images.get("~team_a~app")).toEqual(mine);
  expect(await images.get("~team_a~app", "team_b")).toBeUndefined();
  expect((await images.list("team_b")).map(({ owner }) => owner)).toEqual([undefined]);
  expect(await images.list()).toHaveLength(2);
  expect(await refusal(images.put({ ...image("app", "two"), owner: "a/../b" }))).toMatch(/^invalid: Cannot name/);
  await images.delete("~team_a~app");
  expect(await images.get("app", "team_a")).toEqual(hosts);
});

test("an image's own configuration is kept unchanged", async () => {
  const { images, path } = await openImages();
  const config = {
    user: "node:node",
    cwd: "/app",
    entrypoint: ["/entry"],
    command: ["serve"],
    ports: ["80/tcp"],
    volumes: ["/data"],
    labels: { a: "b" },
    stopSignal: "SIGINT",
    start: { command: "serve", ready: "true" },
    shell: ["/bin/bash", "-c"],
    onBuild: ["COPY . /src"],
    author: "me",
    builtAt: 4,
    history: [{ createdBy: "RUN x", createdAt: 5, isEmpty: true }],
  };
  const parts = [{ diffId: "d", digest: "e", packedSize: 1, size: 2, layer: "one" }];
  const source = { reference: "registry.test/app:V1", manifest: "f", index: "0" };
  const put = await images.put({ ...image("registry.test/app:V1", "one"), config, parts, source, kept: ["three"] });
  const again = new ImageStore(path);
  expect(await again.get("registry.test/app:V1")).toEqual(put);
  // A builder writes the fields in another order.
  const turned = Object.fromEntries(Object.entries(config).reverse()) as typeof config;
  const built = await images.put({ ...image("built", "one"), config: turned });
  expect((await new ImageStore(path).get("built"))?.digest).toBe(built.digest);
  expect(await again.layersInUse([])).toEqual(new Set(["one", "three"]));
});
