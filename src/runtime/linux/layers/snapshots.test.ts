/** Snapshots: which layers they keep, and how lost or old records are restored. */

import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { refusal } from "../../../../test/harness/guest/file-guest.ts";
import { type TestStore, useLayerTools } from "../../../../test/harness/images/layer-tools.ts";
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

async function contents(at: TestStore, layers: string[]): Promise<string[]> {
  const directories = await at.layers.lowerDirs(layers);
  const dumps = await Promise.all(directories.map((directory) => flattenMain("dump", directory)));
  // Times are compared in milliseconds, as the wire and the archive have them; times that were not set are dropped.
  return dumps.map((dump) =>
    dump.replaceAll(/ \d{10}\.\d{9}/g, (time) => (time.startsWith(" 1000000000") ? time : "")),
  );
}

describe("snapshots that were acknowledged before they were flushed", () => {
  test("once flushed they are like all others", async () => {
    const { at, snapshot } = await withSnapshot(write("/a", "1"));
    await at.snapshots.publish({ ...snapshot, whole: false, unflushed: true });
    at.snapshots.settle(snapshot.id, async () => undefined);
    await at.snapshots.flushed();
    expect(await at.snapshots.get(snapshot.id)).not.toHaveProperty("unflushed");
    await at.snapshots.open({ isNewlyMounted: true });
    expect(await at.snapshots.suspects()).toEqual([]);
  });

  test("after a failed flush they stay unflushed, and are suspects when the store was mounted anew", async () => {
    const { at, snapshot } = await withSnapshot(write("/a", "1"));
    await at.snapshots.publish({ ...snapshot, whole: false, unflushed: true });
    at.layers.sync = async () => {
      throw new Error("No space left on device");
    };
    at.snapshots.settle(snapshot.id, async () => 1);
    await at.snapshots.flushed();
    expect(await at.snapshots.get(snapshot.id)).toMatchObject({ unflushed: true, size: snapshot.size });
    await at.snapshots.open({ isNewlyMounted: true });
    expect(await at.snapshots.suspects()).toEqual([snapshot.id]);
    await at.snapshots.trust(snapshot.id);
    expect(await at.snapshots.suspects()).toEqual([]);
    await at.snapshots.open({ isNewlyMounted: true });
    expect(await at.snapshots.suspects()).toEqual([]);
  });
});

describe("keeping", () => {
  test("closing waits for a collection that runs, and nothing is collected afterwards", async () => {
    const { at, snapshot } = await withSnapshot(write("/a", "1"));
    await at.snapshots.delete(snapshot.id);
    const order: string[] = [];
    const collection = at.snapshots.collect().then(() => order.push("collected"));
    await at.snapshots.close().then(() => order.push("closed"));
    await collection;
    expect(order).toEqual(["collected", "closed"]);
    // Without its folder, as when the store is unmounted, every record would seem to be gone.
    await rm(join(at.path, "snapshots"), { recursive: true });
    expect(await at.snapshots.collect()).toEqual([]);
  });

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
