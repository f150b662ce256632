/** Snapshots: what they keep alive, and how they survive as files, good and hostile. */

import { createHash, randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { zstdCompressSync, zstdDecompressSync } from "node:zlib";
import { pack } from "tar-stream";
import { describe, expect, test } from "vitest";
import { all, refusal } from "../../../../test/harness/file-guest.ts";
import { tempDir } from "../../../../test/harness/harness.ts";
import { type TestStore, useLayerTools } from "../../../../test/harness/layer-tools.ts";
import type { SnapshotInfo } from "../../../core/ports/runtime.ts";
import type { FileSession } from "../files/file-session.ts";
import { imageReference } from "../images/images.ts";

const { store, flattenMain } = useLayerTools();

/** a store with an image, and a snapshot above it with one layer per builder, topmost first */
async function withSnapshot(...build: ((files: FileSession) => Promise<unknown>)[]) {
  const at = await store();
  const snapshot = await addSnapshot(at, build);
  return { at, snapshot };
}

async function addSnapshot(at: TestStore, build: ((files: FileSession) => Promise<unknown>)[]): Promise<SnapshotInfo> {
  const claim = at.layers.hold();
  const layers: string[] = [];
  for (const fill of build) {
    const layer = await at.layers.create(claim, async (files) => void (await fill(files)));
    layers.push(layer.id);
  }
  const base = await at.layers.create(claim, async (files) => void (await files.write("/base", Buffer.from("base"))));
  const config = { env: {}, user: "root", cwd: "/", createdAt: 1 };
  const image = (await at.images.get("tiny")) ?? (await at.images.put({ name: "tiny", layers: [base.id], ...config }));
  const size = await at.layers.size(layers);
  const snapshot = await at.snapshots.record({ image: imageReference(image), layers, size, whole: false });
  await claim.release();
  return snapshot;
}

const write = (path: string, text: string) => (files: FileSession) =>
  files.write(path, Buffer.from(text), { parents: true });

/** every kind of thing that a layer can hold */
async function everything(files: FileSession): Promise<void> {
  await files.write("/dir/file", Buffer.from("x".repeat(10_000)), { parents: true, mode: 0o640, modifiedAt: 1e12 });
  await files.chown("/dir/file", 1000, 1000);
  await files.setAttribute("/dir/file", "user.note", Buffer.from([0, 1, 254, 255]));
  await files.link("/dir/file", "/dir/link");
  await files.write("/dir/large", randomBytes(9 << 20));
  await files.write("/setuid", Buffer.from("s"), { mode: 0o4755, exactMode: true });
  await files.write(`/${"long".repeat(50)}/${"name".repeat(50)}`, Buffer.from("n"), { parents: true });
  await files.write("/ünï", Buffer.from("u"));
  await files.symlink("../../etc/passwd", "/symlink");
  await files.fifo("/fifo", 0o600);
  await files.whiteout("/gone");
  await files.mkdir("/opaque", { mode: 0o700 });
  await files.setAttribute("/opaque", "trusted.overlay.opaque", Buffer.from("y"));
  await files.mkdir("/moved", { mode: 0o755 });
  await files.setAttribute("/moved", "trusted.overlay.redirect", Buffer.from("/from/here"));
  for (const path of ["/dir", "/opaque", "/moved"]) await files.utime(path, 1e12);
}

async function exported(at: TestStore, id: string): Promise<Buffer> {
  return Buffer.concat(await (await at.snapshots.export(id)).toArray());
}

async function contents(at: TestStore, layers: string[]): Promise<string[]> {
  const directories = await at.layers.lowerDirs(layers);
  const dumps = await Promise.all(directories.map((directory) => flattenMain("dump", directory)));
  // Times are compared in milliseconds, as the wire and the archive have them; times that were not set are dropped.
  return dumps.map((dump) =>
    dump.replaceAll(/ \d{10}\.\d{9}/g, (time) => (time.startsWith(" 1000000000") ? time : "")),
  );
}

describe("keeping", () => {
  test("a snapshot keeps its layers and its image's, also when the name is gone, and releases them", async () => {
    const { at, snapshot } = await withSnapshot(write("/a", "1"));
    await at.images.delete("tiny");
    expect(await at.snapshots.collect()).toEqual([]);
    const { image, layer } = await at.snapshots.ready(snapshot.id, async () => {});
    expect([layer]).toEqual(snapshot.layers);
    const layers = [layer, ...image.layers];
    await at.snapshots.delete(snapshot.id);
    expect((await at.snapshots.collect()).sort()).toEqual([...layers].sort());
    expect(await readdir(join(at.path, "images"))).toEqual([]);
  });

  test("a layer is kept as long as any snapshot or machine has it", async () => {
    const { at, snapshot } = await withSnapshot(write("/a", "1"));
    const { image, layers } = snapshot;
    const fork = await at.snapshots.record({ image, layers, size: 1, whole: false });
    await at.snapshots.delete(snapshot.id);
    expect(await at.snapshots.collect()).toEqual([]);
    at.needs.layers = snapshot.layers;
    await at.snapshots.delete(fork.id);
    expect(await at.snapshots.collect()).toEqual([]);
    at.needs.layers = [];
    expect(await at.snapshots.collect()).toEqual(snapshot.layers);
  });

  test("a damaged record that is in no layer is set aside, and its layers are kept until it is given up", async () => {
    const { at, snapshot } = await withSnapshot(write("/a", "1"));
    const path = join(at.path, "snapshots", `${snapshot.id}.json`);
    const good = await readFile(path);
    await at.images.delete("tiny");
    await writeFile(path, "");
    await at.snapshots.open();
    expect(await at.snapshots.list()).toEqual([]);
    expect(await at.snapshots.collect()).toEqual([]);
    await writeFile(path, good);
    expect(await at.snapshots.ready(snapshot.id, async () => {})).toMatchObject({ snapshot });
    await rm(path);
    await rm(`${path}.damaged`);
    expect(await at.snapshots.collect()).toEqual(expect.arrayContaining(snapshot.layers));
  });

  test("a missing record is restored from its layer, unless another layer of it is gone", async () => {
    const { at, snapshot } = await withSnapshot(write("/a", "1"));
    const [layer = ""] = snapshot.layers;
    const path = join(at.path, "snapshots", `${snapshot.id}.json`);
    const layerPath = join(at.path, "layers", layer, "layer.json");
    const info = JSON.parse(await readFile(layerPath, "utf8"));
    const inLayer = (record: object) =>
      writeFile(layerPath, JSON.stringify({ ...info, bootId: at.layers.bootId, snapshot: record }));
    await rm(path);
    await inLayer({ ...snapshot, layers: [layer, "0".repeat(28)] });
    expect(await (await at.reopen()).snapshots.restore([snapshot.id])).toEqual([]);
    await inLayer(snapshot);
    const { snapshots } = await at.reopen();
    expect(await snapshots.restore([])).toEqual([]);
    expect(await snapshots.list()).toEqual([]);
    expect(await snapshots.restore([snapshot.id, "1".repeat(28)])).toEqual([snapshot.id]);
    expect(await snapshots.list()).toEqual([snapshot]);
    expect(await snapshots.collect()).not.toContain(layer);
  });

  test("an unknown snapshot gives a clear error", async () => {
    const at = await store();
    for (const id of ["none", "../../etc/passwd", "0".repeat(28)]) {
      expect(await at.snapshots.get(id)).toBeUndefined();
      expect(await refusal(at.snapshots.delete(id))).toMatch(/^not-found: Cannot delete snapshot/);
      expect(await refusal(at.snapshots.export(id))).toMatch(/^not-found: Cannot export snapshot/);
      expect(await refusal(at.snapshots.ready(id, async () => {}))).toMatch(/^not-found: Cannot boot from snapshot/);
    }
  });

  test("a snapshot of several layers, from an older version, is merged into one layer and frees them", async () => {
    const { at, snapshot } = await withSnapshot(write("/a", "new"), write("/a", "old"), write("/b", "b"));
    const ready = () => at.snapshots.ready(snapshot.id, async () => {});
    const [merged, again] = await Promise.all([ready(), ready()]);
    expect(again).toEqual(merged);
    expect(merged.snapshot).toEqual({ ...snapshot, layers: [merged.layer] });
    expect(await at.snapshots.get(snapshot.id)).toEqual(merged.snapshot);
    expect((await at.snapshots.collect()).sort()).toEqual([...snapshot.layers].sort());
    expect((await contents(at, [merged.layer])).join().match(/^\S+/gm)).toEqual([".", "./a", "./b"]);
  });
});

describe("as a file", () => {
  test("everything in its layers comes back", async () => {
    const { at, snapshot } = await withSnapshot(everything);
    const file = await exported(at, snapshot.id);
    const copy = await at.snapshots.import(Readable.from([file]));
    expect(copy).toMatchObject({ image: snapshot.image, layers: [expect.any(String)], whole: false });
    expect(copy.layers).not.toEqual(snapshot.layers);
    expect(await contents(at, copy.layers)).toEqual(await contents(at, snapshot.layers));
    const marks = async (id = "") => {
      const files = await at.layers.filesAt(id);
      const steps = await all(files.walk("/", { attributes: true }));
      files.close();
      return steps
        .flatMap(({ entry }) => entry.attributes.map(({ name, value }) => `${entry.path} ${name} ${value}`))
        .sort();
    };
    expect(await marks(copy.layers[0])).toEqual(await marks(snapshot.layers[0]));
    expect(await marks(copy.layers[0])).toContain("moved trusted.overlay.redirect /from/here");
  });

  test("it can be imported into another store that has the image, and into none that lacks it", async () => {
    const { at, snapshot } = await withSnapshot(write("/a", "1"));
    const file = await exported(at, snapshot.id);
    const { at: other } = await withSnapshot(write("/b", "1"));
    const image = await other.images.get("tiny");
    expect((await other.snapshots.import(Readable.from([file]))).image).toBe(image && imageReference(image));
    const empty = await store();
    expect(await refusal(empty.snapshots.import(Readable.from([file])))).toBe(
      `not-found: Cannot import the snapshot: its image "${snapshot.image}" is not here`,
    );
  });

  test("its layers are not collected while it is read", async () => {
    const { at, snapshot } = await withSnapshot(write("/a", "1"));
    const stream = await at.snapshots.export(snapshot.id);
    await at.snapshots.delete(snapshot.id);
    expect(await at.snapshots.collect()).not.toContain(snapshot.layers[0]);
    await stream.toArray();
    expect(await at.snapshots.collect()).toContain(snapshot.layers[0]);
  });
});

describe("a file with the image's own files in it", () => {
  /** an image that shows "bin" of a host directory, which has "bin" and "secret" */
  async function withHost() {
    const at = await store();
    const host = await tempDir();
    for (const name of ["bin", "secret"]) await mkdir(join(host, name));
    const claim = at.layers.hold();
    const own = await at.layers.create(claim, async (files) => {
      await place(files, "/usr", "/bin");
      for (const name of ["/bin", "/secret"]) await files.whiteout(name);
    });
    const lower = await at.layers.addPath(claim, "host-test", host);
    const config = { env: {}, user: "root", cwd: "/", createdAt: 1 };
    const image = await at.images.put({ name: "host-like", layers: [own.id, lower.id], ...config });
    return { at, claim, image };
  }

  async function place(files: FileSession, path: string, from: string): Promise<void> {
    await files.mkdir(path, { mode: 0o755 });
    await files.setAttribute(path, "trusted.overlay.redirect", Buffer.from(from));
  }

  const hide = async (files: FileSession) => {
    for (const name of ["/bin", "/secret"]) await files.whiteout(name);
  };

  async function imported(fill: (files: FileSession) => Promise<void>): Promise<string> {
    const { at, claim, image } = await withHost();
    const layer = await at.layers.create(claim, async (files) => void (await fill(files)));
    const reference = imageReference(image);
    const snapshot = await at.snapshots.record({ image: reference, layers: [layer.id], size: 1, whole: true });
    const file = await exported(at, snapshot.id);
    const before = await at.layers.list();
    const said = await refusal(at.snapshots.import(Readable.from([file])));
    if (said !== "") expect(await at.layers.list()).toEqual(before);
    return said;
  }

  test("is restored if it shows the same parts of the host as the image", async () => {
    const { at, claim, image } = await withHost();
    const layer = await at.layers.create(claim, async (files) => {
      await hide(files);
      await place(files, "/usr", "/bin");
      await place(files, "/elsewhere", "/bin");
    });
    const record = { image: imageReference(image), layers: [layer.id], size: 1, whole: true };
    const file = await exported(at, (await at.snapshots.record(record)).id);
    expect(await at.snapshots.import(Readable.from([file]))).toMatchObject({ image: record.image, whole: true });
  });

  test.each<[what: string, fill: (files: FileSession) => Promise<void>, says: RegExp]>([
    ["a directory moved from a hidden one", async (files) => place(files, "/x", "/secret"), /"x" is a directory of/],
    ["one moved from a hidden one at the top", async (files) => place(files, "/x", "secret"), /"x" is a directory of/],
    ["one moved from below a hidden one", async (files) => place(files, "/x", "/secret/y"), /"x" is a directory of/],
    ["one moved by a path that climbs", async (files) => place(files, "/x", "/bin/../secret"), /"x" is a directory of/],
  ])("is refused with %s", async (_, fill, says) => {
    const said = await imported(async (files) => {
      await hide(files);
      await fill(files);
    });
    expect(said).toMatch(says);
  });

  test("is refused when it does not hide what the image hides", async () => {
    expect(await imported(async (files) => files.whiteout("/bin"))).toMatch(/it does not hide the host's "secret"/);
    const open = async (files: FileSession) => {
      await files.whiteout("/bin");
      await files.mkdir("/secret", { mode: 0o755 });
    };
    expect(await imported(open)).toMatch(/it does not hide the host's "secret"/);
  });
});

describe("a hostile file is refused with a clear error and leaves nothing", () => {
  const manifest = { sandkeep: 1, image: "tiny", layers: 1, createdAt: 1 };
  const json = (value: unknown) => JSON.stringify(value);
  const sha256 = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");

  async function archive(members: [name: string, content: string | Buffer, type?: "symlink"][]): Promise<Buffer> {
    const tar = pack();
    for (const [name, content, type = "file"] of members) {
      if (type === "symlink") tar.entry({ name, type, linkname: "/etc/passwd" });
      else tar.entry({ name }, content);
    }
    tar.finalize();
    return Buffer.concat(await Readable.from(tar as AsyncIterable<Buffer>).toArray());
  }

  /** a valid archive, except for the content of its one layer */
  async function archiveOf(layer: Buffer): Promise<Buffer> {
    const end = { sha256: sha256(layer), size: layer.length };
    return archive([
      ["manifest.json", json(manifest)],
      ["layers/0/000000", layer],
      ["layers/0/end.json", json(end)],
    ]);
  }

  const cases: Record<string, { make: (good: Buffer) => Buffer | Promise<Buffer>; says: RegExp }> = {
    "no archive at all": { make: () => Buffer.from("hello"), says: /cut short|damaged/ },
    nothing: { make: () => Buffer.alloc(0), says: /"manifest.json" is missing/ },
    "cut short": {
      make: (good) => good.subarray(0, good.length - 3000),
      says: /damaged or cut short|is missing|Cannot/,
    },
    "cut between members": {
      make: async () => archive([["manifest.json", json(manifest)]]),
      says: /"layers\/0\/000000" is missing/,
    },
    "damaged inside": {
      make: (good) => {
        const plain = zstdDecompressSync(good);
        const at = plain.indexOf("xxxxxxxx");
        plain.write("y", at);
        return zstdCompressSync(plain);
      },
      says: /layer 0 is not what its digest says/,
    },
    "a manifest of another version": {
      make: async () => archive([["manifest.json", json({ ...manifest, sandkeep: 3 })]]),
      says: /"manifest.json" is not what it should be/,
    },
    "a manifest that names a thousand layers": {
      make: async () => archive([["manifest.json", json({ ...manifest, layers: 1000 })]]),
      says: /"manifest.json" is not what it should be/,
    },
    "a manifest of two layers that are each whole": {
      make: async () => archive([["manifest.json", json({ ...manifest, layers: 2, whole: true })]]),
      says: /"manifest.json" is not what it should be/,
    },
    "a manifest that is a link": {
      make: async () => archive([["manifest.json", "", "symlink"]]),
      says: /"manifest.json" is not a file/,
    },
    "a length of 5 GB": {
      make: async () => {
        const tar = await archive([
          ["manifest.json", json(manifest)],
          ["layers/0/000000", "x"],
        ]);
        return withLength(tar, 1024, 5 * 2 ** 30);
      },
      says: /"layers\/0\/000000" claims 5368709120 bytes/,
    },
    "something more at the end": {
      make: async () =>
        archive([
          ["manifest.json", json(manifest)],
          ["layers/0/000000", Buffer.alloc(1024)],
          ["layers/0/end.json", json({ sha256: sha256(Buffer.alloc(1024)), size: 1024 })],
          ["more", "x"],
        ]),
      says: /"more" does not belong there/,
    },
    "a layer that climbs out": {
      make: async () => archiveOf(await archive([["../x", "x"]])),
      says: /its path has "\.\." in it/,
    },
    "a layer with an absolute name": {
      make: async () => archiveOf(await archive([["/x", "x"]])),
      says: /its path is absolute/,
    },
    "a layer with a member below a symlink": {
      make: async () => {
        const layer = await archive([
          ["a", "", "symlink"],
          ["a/b", "x"],
        ]);
        return archiveOf(layer);
      },
      says: /below a symlink/,
    },
    "a layer with a device": {
      make: async () => {
        const tar = pack();
        tar.entry({ name: "disk", type: "block-device", devmajor: 8, devminor: 0 });
        tar.finalize();
        const layer = Buffer.concat(await Readable.from(tar as AsyncIterable<Buffer>).toArray());
        return archiveOf(layer);
      },
      says: /device/,
    },
  };

  test.each(Object.entries(cases))("%s", async (_, { make, says }) => {
    const { at, snapshot } = await withSnapshot(write("/a", "x".repeat(5000)));
    const file = await make(await exported(at, snapshot.id));
    const before = await Promise.all(["layers", "snapshots"].map((folder) => readdir(join(at.path, folder))));
    const said = await refusal(at.snapshots.import(Readable.from([file])));
    expect(said).toMatch(/^invalid: Cannot /);
    expect(said).toMatch(says);
    await at.layers.settled();
    expect(await Promise.all(["layers", "snapshots"].map((folder) => readdir(join(at.path, folder))))).toEqual(before);
    for (const folder of ["building", "trash", "claims"]) {
      expect(await readdir(join(at.path, folder)), folder).toEqual([]);
    }
  });

  /** the tar with another length in the header at an offset, and a matching checksum */
  function withLength(tar: Buffer, at: number, length: number): Buffer {
    const header = tar.subarray(at, at + 512);
    header.write(`${length.toString(8).padStart(11, "0")} `, 124);
    header.write("        ", 148);
    const sum = header.reduce((total, byte) => total + byte, 0);
    header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
    return tar;
  }
});
