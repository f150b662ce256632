/** Images and answers that a clever registry makes: each is refused with a sentence, or unpacked within its own root. */

import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { zstdCompressSync } from "node:zlib";
import { expect, test } from "vitest";
import { refusal } from "../../../../test/harness/guest/file-guest.ts";
import { tempDir } from "../../../../test/harness/harness.ts";
import { arch, type Member, sha256, stores, tarOf } from "../../../../test/harness/images/image-archives.ts";
import { type TestStore, useLayerTools } from "../../../../test/harness/images/layer-tools.ts";
import { TestRegistry } from "../../../../test/harness/images/test-registry.ts";
import { largestJson } from "../oci/manifest.ts";
import { pullImage } from "./pull.ts";
import { parseReference } from "./reference.ts";

const run = promisify(execFile);
const { store, flattenMain } = useLayerTools();

function pull(at: TestStore, registry: TestRegistry) {
  return pullImage(stores(at), parseReference(`${registry.host}/team/app:v1`), {
    settings: { http: [registry.host], private: [], mirrors: {} },
    credentials: { find: async () => undefined },
    isTrusted: true,
    node: false,
  });
}

/** a line for each file of an image, as guest/test/flatten_main.c prints it */
async function pulledFiles(registry: TestRegistry): Promise<string> {
  const at = await store({ volumes: true });
  const { image } = await pull(at, registry);
  return flattenMain("dump", ...(await at.layers.lowerDirs([image.kept?.at(-1) ?? ""])));
}

const shell: Member = { name: "bin/sh", content: "shell", mode: 0o755 };

test("a layer in chunks of any length arrives whole", async () => {
  const registry = await new TestRegistry().listen();
  const content = randomBytes(3 << 20).toString("latin1");
  registry.image("v1", [await tarOf([shell, { name: "data", content: Buffer.from(content, "latin1") }])]);
  registry.before = ({ url = "" }, response) => {
    const blob = registry.blobs.get(url.split("/").at(-1) ?? "");
    if (!blob || blob.length < 1 << 20) return false;
    // Without a length, so each write is a chunk: many of them in one packet, and some in several.
    response.writeHead(200);
    for (let at = 0, turn = 1; at < blob.length; turn = (turn * 7) % 99_991) {
      const length = turn % 3 === 0 ? 1 + (turn % 50) : turn * 3;
      response.write(blob.subarray(at, at + length));
      at += length;
    }
    response.end();
    return true;
  };
  expect(await pulledFiles(registry)).toMatch(/\.\/data 100644 0:0 .*3145728/);
});

test("links, owners and attributes of an image hold over its layers, and those of an overlay are dropped", async () => {
  const registry = await new TestRegistry().listen();
  const pax = { "SCHILY.xattr.trusted.overlay.opaque": "y", "SCHILY.xattr.user.note": "kept" };
  registry.image("v1", [
    await tarOf([
      shell,
      { name: "bin/su", content: "su", mode: 0o4755, uid: 5 },
      { name: "way", type: "symlink", linkname: "/nowhere" },
      { name: "noted", type: "directory", pax },
      { name: "twice", content: "first" },
      { name: "twice", content: "second" },
    ]),
    await tarOf([
      { name: "bin/second", type: "link", linkname: "bin/su" },
      { name: "bin/name-of-link", type: "link", linkname: "way" },
      { name: "bin/.wh..." },
      { name: "bin/.wh..wh.x" },
    ]),
  ]);
  const at = await store({ volumes: true });
  const { image } = await pull(at, registry);
  const [directory = ""] = await at.layers.lowerDirs([image.kept?.at(-1) ?? ""]);
  const files = await flattenMain("dump", directory);
  // The dump leaves out what an overlay does not show.
  const { stdout: packed } = await run("tar", ["--xattrs", "--xattrs-include=*", "-cC", directory, "noted"]);
  expect(packed).toContain("xattr.user.note=kept");
  expect(packed).not.toContain("xattr.trusted");
  expect(files).toMatch(/^\.\/bin\/su 104755 5:0 .* (\S+)\n/m);
  const [su, second] = ["su", "second"].map((name) => files.split("\n").find((line) => line.includes(`bin/${name} `)));
  expect(second?.replace("second", "su")).toBe(su);
  expect(files).toMatch(/\.\/bin\/name-of-link 120777 .* -> \/nowhere\n/);
  expect(files).toMatch(/^\.\/noted 40755 0:0 \S+ user\.note=kept$/m);
  expect(files).toMatch(/^\.\/twice 100644 .* 6 /m);
});

test.each([
  ["a link to a directory of the host", "way", (outside: string) => outside, "way"],
  ["a link that climbs out", "way", (outside: string) => `../../../../../../../..${outside}`, "way"],
])("nothing is written through %s that a lower layer made", async (_, name, target, below) => {
  const outside = await tempDir();
  const registry = await new TestRegistry().listen();
  const through = [await tarOf([shell, { name, type: "symlink", linkname: target(outside) }])];
  for (const member of [
    { name: `${below}/evil`, content: "evil" },
    { name: `${below}/evil`, type: "directory" },
    { name: `${below}/evil`, type: "link", linkname: "bin/sh" },
    { name: `${below}/evil`, type: "symlink", linkname: "x" },
    { name: `${below}/.wh.evil` },
  ] satisfies Member[]) {
    registry.image("v1", [...through, await tarOf([member])]);
    // Refused, or within the image: either will do.
    await pulledFiles(registry).catch(() => undefined);
    expect(await readdir(outside)).toEqual([]);
  }
});

test("names of up to 255 bytes are kept, and longer ones refused", async () => {
  const registry = await new TestRegistry().listen();
  const long = (length: number) => tarOf([shell, { name: `d/${"n".repeat(length)}`, content: "x" }]);
  registry.image("v1", [await long(255)]);
  expect(await pulledFiles(registry)).toContain("n".repeat(255));
  registry.image("v1", [await long(256)]);
  expect(await refusal(pulledFiles(registry))).toMatch(/^invalid: .*too long/i);
});

test("manifests, configs, indexes and frames that would cost too much are refused, and leave nothing", async () => {
  const registry = await new TestRegistry().listen();
  const layer = await tarOf([shell]);
  const set = (content: unknown) => registry.tags.set("v1", Buffer.from(JSON.stringify(content)));
  const indexOf = (content: Buffer) => {
    const platform = { os: "linux", architecture: arch };
    return { schemaVersion: 2, manifests: [{ ...registry.put(content), platform }] };
  };
  const nested = (depth: number) => {
    registry.image("v1", [layer]);
    for (let count = 0; count < depth; count++) set(indexOf(registry.tags.get("v1") ?? Buffer.alloc(0)));
  };
  // A frame that says that its window is 2 GiB.
  const window = (tar: Buffer) => {
    const frame = zstdCompressSync(tar);
    const at = (frame[4] ?? 0) & 0x20 ? 5 : 6;
    const head = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, (frame[4] ?? 0) & ~0xe3, (31 - 10) << 3]);
    return Buffer.concat([head, frame.subarray(at)]);
  };
  const cases: [string, () => void, RegExp][] = [
    ["a manifest of 5 MiB", () => set({ ...registry.image("v1", [layer]), pad: "x".repeat(largestJson) }), /^limit: /],
    [
      "a config of 5 MiB",
      () => {
        const manifest = registry.image("v1", [layer]);
        set({ ...manifest, config: registry.put(Buffer.alloc(largestJson + 1, " ")) });
      },
      /^limit: .*config is larger/,
    ],
    ["indexes of indexes", () => nested(12), /^invalid: .*nested too deep/],
    ["a config of a million variables", () => manyVariables(registry, layer), /^(limit|invalid): /],
    ["a frame of zstd with a huge window", () => registry.image("v1", [layer], { packed: window }), /^invalid: /],
    ["a deep JSON", () => registry.tags.set("v1", Buffer.from("[".repeat(1 << 20))), /^invalid: .*JSON/],
  ];
  for (const [what, prepare, says] of cases) {
    const at = await store({ volumes: true });
    prepare();
    expect(await refusal(pull(at, registry)), what).toMatch(says);
    await at.layers.settled();
    for (const folder of ["layers", "building", "claims", "images"]) {
      expect(await readdir(join(at.path, folder)), `${what}: ${folder}`).toEqual([]);
    }
  }
  nested(1);
  expect(await pulledFiles(registry)).toContain("./bin/sh");
});

function manyVariables(registry: TestRegistry, layer: Buffer): void {
  const manifest = registry.image("v1", [layer], { env: Array.from({ length: 150_000 }, (_, at) => `V${at}=x`) });
  expect(sha256(registry.tags.get("v1") ?? "")).toBe(sha256(Buffer.from(JSON.stringify(manifest))));
}
