/** Large layers, which a thread unpacks: the same files as without one, and the same refusals. */

import { randomBytes } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { expect, test } from "vitest";
import { refusal } from "../../../../test/harness/guest/file-guest.ts";
import { sha256, stores, tarOf } from "../../../../test/harness/images/image-archives.ts";
import { type TestStore, useLayerTools } from "../../../../test/harness/images/layer-tools.ts";
import { TestRegistry } from "../../../../test/harness/images/test-registry.ts";
import { pullImage } from "../registry/pull.ts";
import { parseReference } from "../registry/reference.ts";

const { store, threadedStore, flattenMain } = useLayerTools();

const small = () =>
  tarOf([
    { name: "etc/passwd", content: "root:x:0:0::/root:/bin/sh\n" },
    { name: "bin/tool", content: "tool" },
    { name: "dev/null", type: "character-device", devmajor: 1, devminor: 3 },
  ]);
const large = () =>
  tarOf([
    { name: "bin/.wh.tool" },
    { name: "dev/zero", type: "character-device", devmajor: 1, devminor: 5 },
    // Even text of random digits is more than 4 MiB when it is compressed.
    { name: "srv/data", content: randomBytes(4 << 20).toString("hex"), mode: 0o640, uid: 3 },
  ]);

interface PullHow {
  requireRoom?: () => void;
  received?: (bytes: number, of: number) => void;
  said?: string[];
}

function pull(at: TestStore, registry: TestRegistry, { requireRoom = () => {}, said = [], ...how }: PullHow = {}) {
  return pullImage({ ...stores(at), requireRoom }, parseReference(`${registry.host}/team/app:v1`), {
    settings: { http: [registry.host], private: [], mirrors: {} },
    credentials: { find: async () => undefined },
    isTrusted: true,
    node: false,
    progress: (sentence) => void said.push(sentence),
    ...how,
  });
}

async function nothingLeft(at: TestStore): Promise<void> {
  await at.layers.settled();
  for (const folder of ["layers", "building", "claims", "images"]) {
    expect(await readdir(join(at.path, folder)), folder).toEqual([]);
  }
}

test("a thread unpacks a large layer to the same files, and the blob is gone before they are written to the disk", async () => {
  const registry = await new TestRegistry().listen();
  registry.image("v1", [await small(), await large()]);
  const [here, there] = [await store({ volumes: true }), await threadedStore()];
  const said: string[] = [];
  const dump = async (at: TestStore, base = "") => {
    const text = await flattenMain("dump", ...(await at.layers.lowerDirs([base])));
    // Directories have the time at which they were filled.
    return text.split("\n").filter((line) => /^\.\/(bin\/|srv\/|etc\/passwd)/.test(line));
  };
  const plain = await dump(here, (await pull(here, registry)).image.kept?.at(-1));
  expect(plain.join("\n")).toContain("./srv/data 100640 3:0");
  expect(plain.join("\n")).not.toContain("tool");
  const { image } = await pull(there, registry, { said });
  expect(await dump(there, image.kept?.at(-1))).toEqual(plain);
  expect(there.sessions()).toBe(1);
  expect(said.filter((sentence) => sentence.startsWith("left out 1 entry below /dev"))).toHaveLength(2);
  expect(await readdir(join(there.path, "downloads"))).toEqual([]);
});

test("a thread refuses what is refused without one, ends, and leaves nothing", async () => {
  const registry = await new TestRegistry().listen();
  const layer = await large();
  const bad = await tarOf([{ name: "../out", content: randomBytes(4 << 20).toString("hex") }]);
  const cases: [string, () => void, RegExp][] = [
    ["a path that leads out", () => registry.image("v1", [bad]), /^invalid: Cannot extract "..\/out": .*"\.\."/],
    ["a tar with another digest", () => lie(registry, layer, sha256("other")), /^invalid: .*not what its digest says/],
    ["a blob with another digest", () => spoil(registry, layer), /^invalid: .*not what its digest says/],
    ["a compressed tar in it", () => registry.image("v1", [gzipSync(layer)]), /^invalid: .*no whole tar file/],
  ];
  for (const [what, prepare, says] of cases) {
    const at = await threadedStore();
    prepare();
    expect(await refusal(pull(at, registry)), what).toMatch(says);
    expect(at.sessions(), what).toBe(1);
    await nothingLeft(at);
  }
});

test.each([
  ["gzip", (tar: Buffer) => gzipSync(tar)],
  ["frames of zstd", (tar: Buffer) => Buffer.concat(halves(tar).map((half) => zstdCompressSync(half)))],
])("a thread that unpacks a bomb of %s is ended, and leaves nothing", async (_, packed) => {
  const registry = await new TestRegistry().listen();
  const at = await threadedStore();
  // The zeros are in the last piece of the blob, so the download is over when they come.
  const bomb = await tarOf([
    { name: "random", content: randomBytes(4 << 20).toString("hex") },
    { name: "zeros", content: "\0".repeat(80 << 20) },
  ]);
  registry.image("v1", [bomb], { packed });
  let isHere = false;
  const requireRoom = () => {
    if (isHere) throw new Error("no room");
  };
  const received = (bytes: number, of: number) => {
    isHere = bytes === of;
  };
  await expect(pull(at, registry, { requireRoom, received })).rejects.toThrow("no room");
  expect(at.sessions()).toBe(1);
  await nothingLeft(at);
});

function halves(bytes: Buffer): [Buffer, Buffer] {
  return [bytes.subarray(0, bytes.length / 2), bytes.subarray(bytes.length / 2)];
}

/** an image whose config names another tar than its layer has */
function lie(registry: TestRegistry, layer: Buffer, diffId: string): void {
  const manifest = registry.image("v1", [layer]);
  const content = registry.blobs.get(manifest.config.digest)?.toString() ?? "";
  const config = registry.put(Buffer.from(content.replace(sha256(layer), diffId)));
  registry.tags.set("v1", Buffer.from(JSON.stringify({ ...manifest, config })));
}

/** an image whose blob differs in its last byte */
function spoil(registry: TestRegistry, layer: Buffer): void {
  const [blob] = registry.image("v1", [layer], { packed: (tar) => tar }).layers;
  const content = Buffer.from(registry.blobs.get(blob?.digest ?? "") ?? "");
  content[content.length - 1] = 1;
  registry.blobs.set(blob?.digest ?? "", content);
}
