/** How layers are made, found, flattened and collected, on the guest's real file code. */

import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { all, refusal } from "../../../../test/harness/guest/file-guest.ts";
import { type TestStore, useLayerTools } from "../../../../test/harness/images/layer-tools.ts";
import { type LayerInfo, newLayerId } from "./layer-record.ts";

const { flattenMain, store } = useLayerTools();

/** a layer with these files and without a claim */
async function layerOf(at: TestStore, files: Record<string, string>, id?: string): Promise<LayerInfo> {
  const claim = at.layers.hold();
  const layer = await at.layers.create(claim, async (session) => {
    for (const [path, text] of Object.entries(files)) await session.write(path, Buffer.from(text), { parents: true });
    return id;
  });
  await claim.release();
  return layer;
}

const nothing = async () => new Set<string>();

describe("making", () => {
  test("a created layer is complete, also for a process that opens the store later", async () => {
    const at = await store();
    const layer = await layerOf(at, { "/etc/motd": "hello" });
    const again = await at.reopen();
    expect(await again.layers.get(layer.id)).toEqual(layer);
    expect(layer.size).toBeGreaterThan(0);
    const [directory = ""] = await again.layers.lowerDirs([layer.id]);
    expect(await flattenMain("dump", directory)).toMatch(/\.\/etc\/motd 100644 0:0 .* 5 /);
  });

  test("a build that fails leaves nothing behind", async () => {
    const at = await store();
    const claim = await at.layers.claim();
    const build = at.layers.create(claim, async (session) => {
      await session.write("/half", Buffer.from("x"));
      throw new Error("no more");
    });
    await expect(build).rejects.toThrow("no more");
    await claim.release();
    await at.layers.settled();
    for (const folder of ["layers", "building", "trash", "claims"]) {
      expect(await readdir(join(at.path, folder)), folder).toEqual([]);
    }
  });

  test("an unfinished layer is deleted if its process is dead, and kept if it lives", async () => {
    const at = await store();
    await mkdir(join(at.path, "building", "999999999-1-abcdef", "fs"), { recursive: true });
    const claim = at.layers.hold();
    await at.layers.create(claim, async (session) => {
      await session.write("/file", Buffer.from("x"));
      const again = await at.reopen();
      await again.layers.settled();
      expect(await readdir(join(at.path, "building"))).toHaveLength(1);
      return undefined;
    });
    await claim.release();
  });

  test("two builds of the same id give one layer", async () => {
    const at = await store();
    const first = await layerOf(at, { "/a": "1" }, "sha256-abc");
    const second = await layerOf(at, { "/a": "1" }, "sha256-abc");
    expect(second).toEqual(first);
    expect(await at.layers.list()).toEqual([first]);
  });

  test("a machine's volume becomes a layer without being copied", async () => {
    const at = await store();
    const volume = join(at.path, "volume");
    await mkdir(join(volume, "fs"), { recursive: true });
    await writeFile(join(volume, "fs", "file"), "kept");
    const claim = at.layers.hold();
    const copy = await at.layers.capture(claim, volume, { id: newLayerId(), size: 7 });
    const layer = await at.layers.adopt(claim, volume, { id: newLayerId(), size: 4 });
    await claim.release();
    expect(await at.layers.size([layer.id, copy.id])).toBe(11);
    await expect(readdir(volume)).rejects.toThrow("ENOENT");
    for (const directory of await at.layers.lowerDirs([layer.id, copy.id])) {
      expect(await readdir(directory)).toEqual(["file"]);
    }
  });
});

describe("finding", () => {
  test("an unknown layer, a vanished one and a nonsensical id each give a clear error", async () => {
    const at = await store();
    expect(await refusal(at.layers.lowerDirs(["none"]))).toBe(
      'not-found: Cannot boot from layer "none": it is not in the store',
    );
    expect(await refusal(at.layers.lowerDirs(["../../etc"]))).toBe(
      'not-found: Cannot boot from layer "../../etc": it is not in the store',
    );
    const layer = await layerOf(at, { "/a": "1" });
    await rm(join(at.path, "layers", layer.id, "fs"), { recursive: true });
    expect(await refusal(at.layers.lowerDirs([layer.id]))).toMatch(/^not-found: .*" is not a directory$/);
    await rm(join(at.path, "layers", layer.id), { recursive: true });
    expect(await refusal(at.layers.lowerDirs([layer.id]))).toMatch(
      /^not-found: Cannot boot from layer .*not in the store/,
    );
  });

  test("a directory of the host is a layer without being copied", async () => {
    const at = await store();
    const claim = at.layers.hold();
    const layer = await at.layers.addPath(claim, "host-usr", "/usr");
    expect(await at.layers.lowerDirs([layer.id])).toEqual(["/usr"]);
    expect(await refusal(at.layers.flatten(claim, [layer.id]))).toBe(
      'invalid: Cannot flatten layer "host-usr": it is a directory of the host',
    );
    await claim.release();
  });
});

describe("flattening", () => {
  test("one layer takes the place of several", async () => {
    const at = await store();
    const below = await layerOf(at, { "/a": "old", "/b": "b" });
    const above = await layerOf(at, { "/a": "new", "/c/d": "d" });
    const claim = await at.layers.claim();
    const flat = await at.layers.flatten(claim, [above.id, below.id]);
    await claim.release();
    const [directory = ""] = await at.layers.lowerDirs([flat.id]);
    const files = (await flattenMain("dump", directory)).match(/^\S+/gm);
    expect(files).toEqual([".", "./a", "./b", "./c", "./c/d"]);
    const session = await at.layers.filesAt(flat.id);
    expect(Buffer.concat(await all(session.read("/a"))).toString()).toBe("new");
    session.close();
  });
});

describe("collecting", () => {
  test("unused layers are deleted, others stay", async () => {
    const at = await store();
    const used = await layerOf(at, { "/a": "1" });
    const unused = await layerOf(at, { "/b": "1", "/deep/er": "1" });
    expect(await at.layers.collect(async () => new Set([used.id]))).toEqual([unused.id]);
    expect(await at.layers.list()).toEqual([used]);
    await at.layers.settled();
    expect(await readdir(join(at.path, "trash"))).toEqual([]);
  });

  test("a claimed layer stays, no matter which process claimed it, until that process is dead", async () => {
    const at = await store();
    const held = await layerOf(at, { "/a": "1" });
    const claimed = await layerOf(at, { "/b": "1" });
    const orphan = await layerOf(at, { "/c": "1" });
    const hold = at.layers.hold();
    await hold.add(held.id);
    const claim = await (await at.reopen()).layers.claim();
    await claim.add(claimed.id);
    await writeFile(join(at.path, "claims", "999999999-1-abc.json"), JSON.stringify({ layers: [orphan.id] }));
    expect(await at.layers.collect(nothing)).toEqual([orphan.id]);
    await hold.release();
    await claim.release();
    expect((await at.layers.collect(nothing)).sort()).toEqual([held.id, claimed.id].sort());
  });

  test("a layer that is claimed while it is being collected comes back", async () => {
    const at = await store();
    const layer = await layerOf(at, { "/a": "1" });
    const claim = await at.layers.claim();
    const deleted = await at.layers.collect(async () => {
      await claim.add(layer.id);
      return new Set();
    });
    expect(deleted).toEqual([]);
    expect(await at.layers.lowerDirs([layer.id])).toHaveLength(1);
    await claim.release();
  });

  test("a layer under construction is not touched", async () => {
    const at = await store();
    const claim = await at.layers.claim();
    const layer = await at.layers.create(claim, async (session) => {
      await session.write("/file", Buffer.from("x"));
      expect(await at.layers.collect(nothing)).toEqual([]);
      return undefined;
    });
    expect(await at.layers.collect(nothing)).toEqual([]);
    expect(await at.layers.get(layer.id)).toEqual(layer);
    await claim.release();
  });
});
