/** Images in a store with subvolumes: their files grow along their layers, and are shared. */

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { refusal } from "../../../../test/harness/guest/file-guest.ts";
import {
  dockerFiles,
  fileOf,
  type Member,
  sha256,
  stores,
  tarOf,
  tarOfFiles,
} from "../../../../test/harness/images/image-archives.ts";
import { useLayerTools } from "../../../../test/harness/images/layer-tools.ts";
import { importImage } from "./import.ts";

const { store, flattenMain } = useLayerTools();

const lower: Member[] = [
  { name: "etc/", type: "directory", mode: 0o755 },
  { name: "etc/passwd", content: "root:x:0:0::/root:/bin/sh\n" },
  { name: "lib", type: "symlink", linkname: "usr/lib" },
  { name: "usr/lib/a", content: "a" },
  { name: "usr/lib/b", content: "b" },
  { name: "data/old/deep", content: "deep" },
  { name: "data/kept", content: "kept" },
  { name: "tree/below", content: "below" },
  { name: "plain", content: "plain" },
  { name: "led", type: "symlink", linkname: "/etc" },
  { name: "proc", type: "symlink", linkname: "/etc" },
];
const upper: Member[] = [
  // The whiteouts come late in the archive, but still apply only to the layers below.
  { name: "data/new", content: "new" },
  { name: "data/old/mine", content: "mine" },
  { name: "data/.wh..wh..opq" },
  { name: "usr/lib/.wh.a" },
  // A symlink of a layer below is resolved within the image.
  { name: "lib/c", content: "c" },
  { name: "tree", content: "a file now" },
  { name: "plain/", type: "directory", mode: 0o711 },
  { name: "led/", type: "directory", mode: 0o755 },
  { name: "led/x", content: "x" },
  { name: "other", type: "link", linkname: "usr/lib/b" },
  { name: "moved/", type: "directory", pax: { "SCHILY.xattr.trusted.overlay.redirect": "/etc" } },
];

test("an image's layers are unpacked one over the other, each into a copy of the one below", async () => {
  const at = await store({ volumes: true });
  const layers = [await tarOf(lower), await tarOf(upper)];
  const config = { config: { User: "node:node", Entrypoint: ["/run"], Cmd: ["x"], Labels: { a: "b" } } };
  const file = await fileOf(at, await tarOfFiles(dockerFiles({ layers, config })));
  const image = await importImage(stores(at), file, { node: false });
  expect(image).toMatchObject({
    base: image.layers[0],
    user: "node:node",
    config: { user: "node:node", entrypoint: ["/run"], command: ["x"], labels: { a: "b" } },
    parts: layers.map((layer) => ({ diffId: sha256(layer), size: layer.length })),
  });
  const shows = await flattenMain("dump", ...(await at.layers.lowerDirs(image.layers)));
  const files = shows.split("\n").map((line) => line.split(" ", 2).join(" "));
  expect(files.filter((line) => /^\.\/(data|usr|lib|tree|plain|led|other|moved|proc)/.test(line)).sort()).toEqual([
    "./data 40755",
    "./data/new 100644",
    "./data/old 40755",
    "./data/old/mine 100644",
    "./led 40755",
    "./led/x 100644",
    "./lib 120777",
    "./moved 40755",
    "./other 100644",
    "./plain 40711",
    "./proc 40755",
    "./tree 100644",
    "./usr 40755",
    "./usr/lib 40755",
    "./usr/lib/b 100644",
    "./usr/lib/c 100644",
  ]);
  expect(shows).not.toMatch(/overlay/);
  expect(await at.layers.list()).toHaveLength(3);
});

test("images with the same lowest layers share these, and importing a name again changes nothing", async () => {
  const at = await store({ volumes: true });
  const [one, two, three] = [await tarOf(lower), await tarOf(upper), await tarOf([{ name: "z", content: "z" }])];
  const bring = async (name: string, layers: Buffer[]) =>
    importImage(stores(at), await fileOf(at, await tarOfFiles(dockerFiles({ layers }))), { name, node: false });
  const first = await bring("first", [one, two]);
  const second = await bring("second", [one, three]);
  expect(second.kept?.[0]).toBe(first.kept?.[0]);
  expect(second.kept?.[1]).not.toBe(first.kept?.[1]);
  expect((await bring("first", [one, two])).version).toBe(first.version);
  // The same layers in another order make a different image.
  const third = await bring("third", [three, one]);
  expect(third.kept).not.toEqual(expect.arrayContaining([second.kept?.[1]]));
  await at.images.delete("first");
  await at.images.delete("third");
  expect((await at.snapshots.collect()).sort()).toEqual(
    [first.kept?.[1], first.base, third.base, ...(third.kept ?? [])].sort(),
  );
});

test("a failed layer leaves nothing, and layers of other images stay", async () => {
  const at = await store({ volumes: true });
  const [one, two] = [await tarOf(lower), await tarOf(upper)];
  const good = await tarOfFiles(dockerFiles({ layers: [one] }));
  const kept = await importImage(stores(at), await fileOf(at, good), { name: "good", node: false });
  const diffIds = [`sha256:${sha256(one)}`, `sha256:${"1".repeat(64)}`];
  const bad = await fileOf(at, await tarOfFiles(dockerFiles({ layers: [one, two], diffIds })));
  expect(await refusal(importImage(stores(at), bad, { name: "bad", node: false }))).toMatch(/not what its digest/);
  await at.layers.settled();
  expect((await readdir(join(at.path, "layers"))).sort()).toEqual([kept.base, ...(kept.kept ?? [])].sort());
  expect(await readdir(join(at.path, "building"))).toEqual([]);
});
