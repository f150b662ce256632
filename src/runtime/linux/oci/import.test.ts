/** Imported images: the result of good ones, and that hostile ones only cause a clear error. */

import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { all, refusal } from "../../../../test/harness/guest/file-guest.ts";
import {
  arch,
  dockerFiles,
  fileOf,
  layoutFiles,
  type Member,
  sha256,
  stores,
  tarOf,
  tarOfFiles,
} from "../../../../test/harness/images/image-archives.ts";
import { type TestStore, useLayerTools } from "../../../../test/harness/images/layer-tools.ts";
import { ownNode } from "../images/node-runtime.ts";
import { ImageView } from "../images/view.ts";
import { importImage, importRootfs } from "./import.ts";

const { store, flattenMain } = useLayerTools();

/** the merged content of an image's layers */
async function merged(at: TestStore, layers: string[]): Promise<string> {
  const into = join(at.path, "merged");
  await mkdir(into);
  await flattenMain("flatten", into, ...(await at.layers.lowerDirs(layers)));
  return flattenMain("dump", into);
}

const base = [
  { name: "etc/", type: "directory", mode: 0o755 },
  { name: "etc/passwd", content: "root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n" },
  { name: "etc/old", content: "old" },
  { name: "usr/bin/sudo", content: "sudo", mode: 0o4755 },
  { name: "data/a", content: "a" },
  { name: "data/b", content: "b" },
] as const satisfies Member[];

const change = [
  { name: "etc/.wh.old", content: "" },
  { name: "data/.wh..wh..opq", content: "" },
  { name: "data/c", content: "c", uid: 1000, gid: 1000 },
  { name: "data/d", type: "link", linkname: "data/c" },
  { name: "tmp", type: "directory", mode: 0o700 },
] as const satisfies Member[];

describe("a whole image", () => {
  const packings = { plain: (tar: Buffer) => tar, gzip: gzipSync, zstd: zstdCompressSync };
  test.each(Object.entries(packings))(
    "of docker save and of an OCI layout are the same image (%s)",
    async (_, packed) => {
      const at = await store();
      const image = { layers: [await tarOf([...base]), await tarOf([...change])], packed };
      const config = { config: { Env: ["PATH=/bin", "A=b=c"], User: "node:node", WorkingDir: "/data" } };
      const saved = await fileOf(at, await tarOfFiles(dockerFiles({ ...image, config })));
      const first = await importImage(stores(at), saved, { node: false });
      expect(first).toMatchObject({ name: "tiny", env: { PATH: "/bin", A: "b=c" }, user: "node:node", cwd: "/data" });
      expect(first.layers.slice(1)).toEqual(image.layers.map((layer) => `sha256-${sha256(layer)}`).reverse());
      const shows = await merged(at, first.layers);
      expect(shows).not.toMatch(/etc\/old 1|data\/a|data\/b|\.wh\./);
      expect(shows).toMatch(/^\.\/data\/c 100644 1000:1000 /m);
      expect(shows).toMatch(/^\.\/data\/d 100644 1000:1000 /m);
      expect(shows).toMatch(/^\.\/usr\/bin\/sudo 104755 0:0 /m);
      expect(shows).toMatch(/^\.\/tmp 41777 /m);
      expect(shows).toMatch(/^\.\/etc\/sudoers\.d\/sandkeep 100440 /m);
      expect(shows).toMatch(/^\.\/vercel\/sandbox 40755 1000:1000 /m);

      const layout = await fileOf(at, await tarOfFiles(layoutFiles({ ...image, config })));
      const second = await importImage(stores(at), layout, { name: "other/name:1", node: false });
      // Only the layer on top is new.
      expect(second.layers.slice(1)).toEqual(first.layers.slice(1));
      expect((await at.images.list()).map(({ name }) => name)).toEqual(["other/name:1", "tiny"]);
    },
  );

  test("is the same from a directory, a pipe and a compressed file", async () => {
    const at = await store();
    const files = layoutFiles({ layers: [await tarOf([...base])] });
    const directory = join(at.path, "layout");
    for (const [name, content] of Object.entries(files)) {
      await mkdir(join(directory, name, ".."), { recursive: true });
      await writeFile(join(directory, name), content);
    }
    const tar = await tarOfFiles(files);
    const sources = [directory, Readable.from([tar]), await fileOf(at, gzipSync(tar))];
    const chains: string[][] = [];
    for (const source of sources)
      chains.push((await importImage(stores(at), source, { name: "x", node: false })).layers);
    expect(new Set(chains.map(([, ...below]) => below.join())).size).toBe(1);
    expect(await readdir(join(at.path, "building"))).toEqual([]);
  });

  test("is imported without its files below /dev, and one line says so", async () => {
    const at = await store();
    const device = { type: "character-device" as const, devmajor: 1, devminor: 3 };
    const members: Member[] = [
      { name: "etc", type: "directory" },
      { name: "dev", type: "directory" },
      { name: "dev/null", ...device },
      { name: "dev/sda", type: "block-device", devmajor: 8, devminor: 0 },
      { name: "dev/fd", type: "symlink", linkname: "/proc/self/fd" },
    ];
    const said: string[] = [];
    const progress = (line: string) => void said.push(line);
    const tar = await tarOf(members);
    const image = await importRootfs(stores(at), Readable.from([tar]), {
      name: "rooted",
      node: false,
      progress,
    });
    expect(said).toContain("left out 3 entries below /dev: a sandbox has a /dev of its own");
    const view = new ImageView(at.layers, image.layers);
    expect((await view.find("/dev"))?.type).toBe("directory");
    expect(await view.exists("/dev/null", "/dev/sda", "/dev/fd")).toBe(false);
    await view.close();
    const elsewhere = await tarOf([{ name: "null", ...device }]);
    await expect(importRootfs(stores(at), Readable.from([elsewhere]), { name: "bad", node: false })).rejects.toThrow(
      'Cannot extract "null": device nodes are not allowed',
    );
  });

  test("has our users beside its own", async () => {
    const at = await store();
    const image = await importRootfs(stores(at), Readable.from([await tarOf([...base])]), { name: "x", node: false });
    const files = await at.layers.filesAt(image.layers[0] ?? "");
    const passwd = Buffer.concat(await all(files.read("/etc/passwd"))).toString();
    files.close();
    expect(passwd.split("\n").map((line) => line.split(":").slice(0, 3).join(":"))).toEqual([
      "root:x:0",
      "node:x:1000",
      "vercel-sandbox:x:1000",
      "ubuntu:x:1000",
      "user:x:1000",
      "",
    ]);
    expect(image).toMatchObject({ user: "vercel-sandbox", cwd: "/vercel/sandbox" });
  });

  test("has our Node only if its C library can run it", async () => {
    const at = await store();
    const node = { ...ownNode(), program: "/usr/bin/true", packages: [] };
    const linker = { name: "lib64/ld-linux-x86-64.so.2", content: "x" };
    const glibc = [...base, arch === "amd64" ? linker : { ...linker, name: "lib/ld-linux-aarch64.so.1" }];
    const with_ = await importRootfs(stores(at), Readable.from([await tarOf(glibc)]), { name: "with", node });
    const without = await importRootfs(stores(at), Readable.from([await tarOf([...base])]), { name: "without", node });
    expect(with_.layers).toHaveLength(3);
    expect(with_.env.PATH).toMatch(/:\/vercel\/runtimes\/node24\/bin$/);
    expect(without.layers).toHaveLength(2);
    expect(without.env.PATH).not.toMatch(/vercel/);
  });

  test("of too many layers is merged into one", async () => {
    const at = await store();
    const layers = await Promise.all(Array.from({ length: 25 }, (_, n) => tarOf([{ name: `f${n}`, content: `${n}` }])));
    layers.push(await tarOf([{ name: ".wh.f3" }]));
    const file = await fileOf(at, await tarOfFiles(dockerFiles({ layers })));
    const image = await importImage(stores(at), file, { node: false });
    expect(image.layers).toHaveLength(2);
    // Not even as a whiteout, which a plain listing of a single layer would show.
    const shows = await merged(at, image.layers);
    expect(shows.match(/^\.\/f\d+/gm)).toHaveLength(24);
    expect(shows).not.toMatch(/f3 /);
    expect(await at.snapshots.collect()).toHaveLength(26);
  });
});

describe("a bad image is refused with a clear error and leaves nothing", () => {
  const good = () => tarOf([...base]);
  const cases: Record<string, { make: () => Promise<Buffer>; says: RegExp }> = {
    "no tar at all": { make: async () => Buffer.from("hello"), says: /^invalid: .*no whole tar/ },
    "an empty file": { make: async () => Buffer.alloc(0), says: /^invalid: .*neither a manifest.json/ },
    "a tar cut short": {
      make: async () => (await tarOfFiles(dockerFiles({ layers: [await good()] }))).subarray(0, 3000),
      says: /^invalid: .*no whole tar/,
    },
    "a layer that is not what its digest says": {
      make: async () => tarOfFiles(dockerFiles({ layers: [await good()], diffIds: [`sha256:${"1".repeat(64)}`] })),
      says: /^invalid: .*"0\/layer.tar" is not what its digest says/,
    },
    "a blob that is not what its digest says": {
      make: async () => {
        const files = layoutFiles({ layers: [await good()] });
        const names = Object.keys(files).filter((name) => files[name]?.includes("rootfs"));
        return tarOfFiles({ ...files, [names[0] ?? ""]: Buffer.from("{}") });
      },
      says: /^invalid: .*blobs\/sha256\/.* is not what its digest says/,
    },
    "a missing layer": {
      make: async () => {
        const { "0/layer.tar": _, ...files } = dockerFiles({ layers: [await good()] });
        return tarOfFiles(files);
      },
      says: /^invalid: .*"0\/layer.tar" is missing/,
    },
    "another machine's programs": {
      make: async () => tarOfFiles(dockerFiles({ layers: [await good()], config: { architecture: "s390x" } })),
      says: /^unsupported: .*it is for linux\/s390x/,
    },
    "a path out of the layers' folder": {
      make: async () => {
        const manifest = [{ Config: "../../../etc/passwd", RepoTags: ["x"], Layers: ["/etc/shadow"] }];
        return tarOfFiles({ "manifest.json": Buffer.from(JSON.stringify(manifest)) });
      },
      says: /^invalid: .*"..\/..\/..\/etc\/passwd" is missing/,
    },
    "a link that leads out of the tar": {
      make: async () => {
        const manifest = [{ Config: "c.json", RepoTags: ["x"], Layers: [] }];
        return tarOf([
          { name: "manifest.json", content: JSON.stringify(manifest) },
          { name: "c.json", type: "symlink", linkname: "/etc/passwd" },
        ]);
      },
      says: /^invalid: .*"c.json" is missing/,
    },
    "two images at once": {
      make: async () => {
        const one = { Config: "c", RepoTags: ["a:1"], Layers: [] };
        return tarOfFiles({ "manifest.json": Buffer.from(JSON.stringify([one, one])) });
      },
      says: /^invalid: .*2 images \(a:1, a:1\)/,
    },
    "more layers than an image may have": {
      make: async () => {
        const layer = await tarOf([]);
        return tarOfFiles(dockerFiles({ layers: Array.from({ length: 10_000 }, () => layer) }));
      },
      says: /^invalid: .*manifest.json is not what it should be.*200/,
    },
    "an environment with a NUL": {
      make: async () => tarOfFiles(dockerFiles({ layers: [await good()], config: { config: { Env: ["A=b\0c"] } } })),
      says: /^invalid: .*NUL/,
    },
    "an environment of megabytes": {
      make: async () =>
        tarOfFiles(dockerFiles({ layers: [await good()], config: { config: { Env: [`A=${"x".repeat(2 << 20)}`] } } })),
      says: /^limit: .*environment has 2097155 bytes/,
    },
    "an owner that no sandbox has": {
      make: async () => tarOfFiles(dockerFiles({ layers: [await tarOf([{ name: "f", content: "", uid: 70000 }])] })),
      says: /^invalid: .*not between 0 and 65535/,
    },
    "a device node": {
      make: async () => {
        const disk: Member = { name: "disk", type: "block-device", devmajor: 8, devminor: 0 };
        return tarOfFiles(dockerFiles({ layers: [await tarOf([disk])] }));
      },
      says: /^invalid: .*device/,
    },
    "a member that climbs out": {
      make: async () => tarOfFiles(dockerFiles({ layers: [await tarOf([{ name: "../../x", content: "x" }])] })),
      says: /^invalid: .*"\.\."/,
    },
    "a member below a symlink": {
      make: async () => {
        const members: Member[] = [
          { name: "a", type: "symlink", linkname: "/etc" },
          { name: "a/passwd", content: "x" },
        ];
        return tarOfFiles(dockerFiles({ layers: [await tarOf(members)] }));
      },
      says: /^invalid: .*below a symlink/,
    },
    "a compressed tar in a compressed layer, whose size nothing would limit": {
      make: async () => {
        const inner = gzipSync(await tarOf([{ name: "f", content: "x" }]));
        return tarOfFiles(dockerFiles({ layers: [inner], packed: gzipSync }));
      },
      says: /^invalid: .*no whole tar file/,
    },
    "an /etc that is no directory": {
      make: async () => {
        const link: Member = { name: "etc", type: "symlink", linkname: "/somewhere" };
        return tarOfFiles(dockerFiles({ layers: [await tarOf([link])] }));
      },
      says: /^invalid: .*\/etc is not a directory/,
    },
  };

  test.each(Object.entries(cases))("%s", async (_, { make, says }) => {
    const at = await store();
    // A good layer comes first, so that the refusal has something to undo.
    const result = refusal(importImage(stores(at), await fileOf(at, await make()), { node: false, name: "bad" }));
    expect(await result).toMatch(says);
    await at.layers.settled();
    for (const folder of ["layers", "building", "trash", "claims", "images"]) {
      expect(await readdir(join(at.path, folder)), folder).toEqual([]);
    }
  });

  test("a name that no image can have", async () => {
    const at = await store();
    for (const name of ["", "../x", "UPPER", "a b", "x@y", "-x", "a".repeat(200)]) {
      expect(await refusal(importImage(stores(at), "/nowhere", { name }))).toMatch(/^invalid: Cannot name an image/);
    }
    expect(await refusal(importImage(stores(at), "/nowhere"))).toBe(
      'not-found: Cannot import "/nowhere": there is no such file or directory',
    );
  });
});
