/** Images that builds make of layers: cached by step, named, pruned, exported and imported again. */

import { createWriteStream } from "node:fs";
import { readdir, readlink, stat } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { expect, test } from "vitest";
import { stores } from "../../../../test/harness/images/image-archives.ts";
import { type TestStore, useLayerTools } from "../../../../test/harness/images/layer-tools.ts";
import { imageKey, plainConfig } from "../../../core/model/image.ts";
import type { NewImage } from "../../../core/ports/image-builds.ts";
import { imageReference } from "../images/images.ts";
import { importImage } from "../oci/import.ts";
import { exportImage } from "./export.ts";
import { LinuxImageBuilds, stepsOwner } from "./image-builds.ts";

const { store, flattenMain } = useLayerTools();
const step = "5".repeat(64);

function buildsIn(at: TestStore): LinuxImageBuilds {
  return new LinuxImageBuilds({ ...stores(at), snapshots: at.snapshots });
}

/** a snapshot of a machine that began empty, with files of every kind */
async function snapshotIn(at: TestStore, builds: LinuxImageBuilds): Promise<string> {
  const image = await at.images.get(await builds.scratch());
  if (!image?.base) throw new Error("There is no image of nothing");
  const claim = await at.layers.claim();
  const layer = await at.layers.grow(claim, image.base, async (files) => {
    await files.write("/bin/tool", Buffer.from("#!"), { mode: 0o4755, exactMode: true, parents: true, owner });
    await files.link("/bin/tool", "/bin/same");
    await files.symlink("../bin/tool", "/bin/soft");
    await files.symlink(notText, Buffer.concat([Buffer.from("/odd-"), notText]));
    await files.setAttribute("/bin/tool", "user.note", Buffer.from("text"));
    await files.setAttribute("/bin/tool", "user.raw", Buffer.from([0xff, 0, 0x80]));
    await files.setAttribute("/bin/tool", "security.capability", capability);
    await files.mkdir("/var/made", { recursive: true, mode: 0o711 });
    await files.whiteout("/gone");
    return { id: "0123456789abcdef0123456789ab", size: 10 };
  });
  const snapshot = await at.snapshots.record({
    image: imageReference(image),
    layers: [layer.id],
    size: 10,
    whole: true,
  });
  await claim.release();
  return snapshot.id;
}

const owner = { uid: 7, gid: 8 };
const notText = Buffer.from([0x63, 0xe9, 0xff]);
/** cap_net_raw, permitted and effective */
const capability = Buffer.from("0100000200200000000000000000000000000000", "hex");

const named: NewImage = {
  name: "made",
  owner: "team_a",
  env: { A: "b" },
  user: "root",
  cwd: "/",
  config: plainConfig(),
};

test("the files after a step are kept without a name, become an image of a team, and are pruned when old", async () => {
  const at = await store({ volumes: true });
  const builds = buildsIn(at);
  const snapshotId = await snapshotIn(at, builds);
  expect(await builds.find(step)).toBeUndefined();
  const key = await builds.keep(step, snapshotId);
  expect(await builds.find(step)).toBe(key);
  expect(await at.snapshots.get(snapshotId)).toBeUndefined();
  expect(await at.images.list("team_a")).toEqual([]);
  expect(await at.images.get(step, "team_a")).toBeUndefined();

  const image = await builds.publish(key, named);
  expect(await at.images.get("made", "team_a")).toMatchObject({ name: "made", env: { A: "b" } });
  expect(await at.images.get("made", "team_b")).toBeUndefined();
  expect(await builds.prune(Date.now() - 60_000)).toBe(0);
  expect(await builds.prune(Date.now() + 60_000)).toBe(1);
  expect(await builds.find(step)).toBeUndefined();
  expect(await readdir(join(at.path, "build-steps"))).toEqual([]);
  // The image still needs the files of the step, and the next build those of the empty image.
  expect(await at.layers.get(image.base ?? "")).toBeDefined();
  expect(await at.images.get(imageKey({ name: "scratch", owner: stepsOwner }))).toBeDefined();
});

test("an image that is about to get its name is not collected", async () => {
  const at = await store({ volumes: true });
  const builds = buildsIn(at);
  const key = await builds.keep(step, await snapshotIn(at, builds));
  const put = at.images.put.bind(at.images);
  at.images.put = async (image) => {
    const made = await put(image);
    // As it is before the name is written.
    await at.images.delete(imageKey(made));
    await at.snapshots.collect();
    expect(await at.images.get(imageReference(made))).toEqual(made);
    return put(image);
  };
  await builds.publish(key, named);
  expect(await at.images.get("made", "team_a")).toBeDefined();
  expect(await at.layers.claimed()).toEqual(new Set());
});

test("an image made from a snapshot stays when the snapshot is deleted", async () => {
  const at = await store({ volumes: true });
  const builds = buildsIn(at);
  const snapshotId = await snapshotIn(at, builds);
  const image = await builds.publishSnapshot(snapshotId, { name: "made", owner: "team_a" });
  await at.snapshots.delete(snapshotId);
  await at.snapshots.collect();
  const files = await flattenMain("dump", ...(await at.layers.lowerDirs([image.base ?? ""])));
  expect(files).toContain("./bin/tool 104755 7:8");
  await expect(builds.publishSnapshot(snapshotId, { name: "x", owner: "team_a" })).rejects.toThrow(
    "there is no such snapshot",
  );
  await expect(builds.publishSnapshot(snapshotId, { name: "NO", owner: "team_a" })).rejects.toThrow("Cannot name");
});

test("an exported image is imported with its modes, owners, attributes and hard links", async () => {
  const at = await store({ volumes: true });
  const builds = buildsIn(at);
  const config = {
    ...plainConfig(),
    entrypoint: ["/bin/tool"],
    labels: { a: "b" },
    ports: ["80/tcp"],
    stopSignal: "TERM",
    volumes: ["/data"],
    onBuild: ["COPY . /src"],
  };
  const key = await builds.keep(step, await snapshotIn(at, builds));
  const image = await builds.publish(key, { ...named, config });
  const file = join(at.path, "image.tar");
  await pipeline(await builds.export(imageKey(image)), createWriteStream(file));
  expect(await readdir(join(at.path, "building"))).toEqual([]);

  const again = await importImage(stores(at), file, { name: "again", node: false });
  expect(again.config).toMatchObject({
    entrypoint: ["/bin/tool"],
    labels: { a: "b" },
    ports: ["80/tcp"],
    stopSignal: "TERM",
    volumes: ["/data"],
    onBuild: ["COPY . /src"],
  });
  expect(again.env.A).toBe("b");
  const dump = async (base: string | undefined) => {
    const text = await flattenMain("dump", ...(await at.layers.lowerDirs([base ?? ""])));
    const lines = text.split("\n").filter((line) => !line.startsWith("./gone"));
    // Archives store whole seconds.
    return lines.map((line) => line.replace(/ \d+\.\d{9}/, ""));
  };
  const before = (await dump(image.base)).filter((line) => line.startsWith("./bin"));
  expect(before).toHaveLength(4);
  expect((await dump(again.base)).filter((line) => line.startsWith("./bin"))).toEqual(before);
  expect((await dump(again.base)).map((line) => line.split(" ", 3))).toEqual(
    (await dump(image.base)).map((line) => line.split(" ", 3)),
  );
  const [directory = ""] = await at.layers.lowerDirs([again.base ?? ""]);
  expect((await stat(join(directory, "bin/tool"))).nlink).toBe(2);
  const odd = Buffer.concat([Buffer.from(`${directory}/odd-`), notText]);
  expect(await readlink(odd, "buffer")).toEqual(notText);
});

test("an export that is left, or has no room, closes its file whether it is being packed or read", async () => {
  const at = await store({ volumes: true });
  const builds = buildsIn(at);
  const image = await builds.publish(await builds.keep(step, await snapshotIn(at, builds)), named);
  const folder = join(at.path, "building");
  const open = async () => {
    const all = await readdir("/proc/self/fd");
    const targets = await Promise.all(all.map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => "")));
    return targets.filter((target) => target.startsWith(folder));
  };
  const unread = await builds.export(imageKey(image));
  expect(await open()).toHaveLength(1);
  unread.destroy();
  await expect.poll(open).toEqual([]);

  const left = new AbortController();
  const gone = await builds.export(imageKey(image), left.signal);
  left.abort();
  await expect.poll(() => gone.closed).toBe(true);
  await expect.poll(open).toEqual([]);
  await expect(builds.export(imageKey(image), AbortSignal.abort(new Error("it left")))).rejects.toThrow("it left");

  let asked = 0;
  const requireRoom = () => {
    asked++;
    throw new Error("the disk is full");
  };
  const { layers, images } = stores(at);
  await expect(exportImage({ layers, images, scratch: folder, requireRoom }, image)).rejects.toThrow("disk is full");
  expect(asked).toBe(1);
  expect(await open()).toEqual([]);
});
