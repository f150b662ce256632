/**
 * A data directory of a version whose snapshots were chains of layers above those of their image: they are merged at
 * their first use, and nothing is lost.
 */

import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { FileSession } from "../../src/runtime/linux/files/file-session.ts";
import { imageReference } from "../../src/runtime/linux/images/images.ts";
import { bootFor, dismiss } from "../conformance/runtime/host.ts";
import { run, sh } from "../conformance/runtime/run.ts";
import { eventually } from "../harness/harness.ts";
import { linuxHost } from "../harness/linux-host.ts";
import { expectNoCollision, lookAt } from "./inode-life.ts";

const host = linuxHost();

/** the leftovers of that version's machine: made, changed and deleted files, and a moved directory of the host */
const generations: ((files: FileSession) => Promise<unknown>)[] = [
  async (files) => {
    await files.write("/srv/d/a", Buffer.from("first\n"), { parents: true });
    await files.link("/srv/d/a", "/srv/d/b");
    await files.mkdir("/usr", { mode: 0o755 });
    await files.mkdir("/usr/share", { mode: 0o755 });
    await files.whiteout("/usr/share/perl");
    await files.mkdir("/srv/perl", { mode: 0o755 });
    await files.setAttribute("/srv/perl", "trusted.overlay.redirect", Buffer.from("/usr/share/perl"));
    await files.mkdir("/etc", { mode: 0o755 });
    await files.whiteout("/etc/hostname");
  },
  async (files) => {
    await files.write("/srv/e/c", Buffer.from("second\n"), { parents: true });
    await files.link("/srv/e/c", "/srv/e/d");
    await files.mkdir("/srv/d", { mode: 0o755 });
    await files.whiteout("/srv/d/b");
  },
];

test("its snapshots boot with all their files, each with its own inode number", async () => {
  const { id, layers } = await oldSnapshot("0".repeat(28));
  await host().reopen();
  const { snapshots } = host().runtime;
  const machine = await bootFor(host(), { root: { snapshot: id } });
  const script =
    "cat /srv/d/a /srv/e/c /srv/e/d; ls /srv/d; ls /etc/hostname /usr/share/perl 2>/dev/null; ls /srv/perl";
  const perl = (await run(await bootFor(host()), ["ls", "/usr/share/perl"])).stdout;
  expect((await sh(machine, script)).stdout).toBe(`first\nsecond\nsecond\na\n${perl}`);
  expectNoCollision(await lookAt(machine, "/srv /etc /usr/bin /vercel"), "in a machine that boots from it");
  expect(await snapshots.get(id)).toMatchObject({ id, layers: [expect.any(String)], whole: true });
  await expectCollected(layers);
  const { snapshot } = await machine.stop({ snapshot: true });
  await snapshots.delete(id);
  await snapshots.collect();
  const next = await bootFor(host(), { root: { snapshot: snapshot?.id ?? "" } });
  expect((await sh(next, script)).stdout).toBe(`first\nsecond\nsecond\na\n${perl}`);
});

test("a dead machine of it keeps its files, also those in the layers below it, and its log", async () => {
  const { id: lower, layers } = await oldSnapshot("1".repeat(28));
  const id = await deadMachine(layers);
  const { runtime } = host();
  await runtime.snapshots.delete(lower);
  await runtime.snapshots.collect();
  expect(kept(layers)).toEqual(layers);
  const log = await runtime.egress(id)?.lines({ after: 0, limit: 9 });
  expect(log?.lines).toMatchObject([{ id: 1, name: "web.test" }]);
  const snapshot = await runtime.salvage(id);
  await runtime.forget(id);
  expect(snapshot?.layers.slice(1)).toEqual(layers);
  const next = await bootFor(host(), { root: { snapshot: snapshot?.id ?? "" } });
  expect((await sh(next, "cat /srv/d/a /srv/e/c /srv/f")).stdout).toBe("first\nsecond\nthird\n");
  await expectCollected(layers);
});

function kept(layers: string[]): string[] {
  return layers.filter((id) => existsSync(join(host().directory, "store/layers", id)));
}

/** The runtime also collects by itself, when records of images have changed. */
async function expectCollected(layers: string[]): Promise<void> {
  await host().runtime.snapshots.collect();
  await eventually("the layers are gone", () => kept(layers).length === 0);
}

/** the files of a machine above these layers, as that version left them when the host was restarted */
async function deadMachine(snapshotLayers: string[]): Promise<string> {
  const { directory } = host();
  const { layers, images } = host().runtime;
  const claim = layers.hold();
  const volume = await layers.create(
    claim,
    async (files) => void (await files.write("/srv/f", Buffer.from("third\n"), { parents: true })),
  );
  const image = await images.get("host");
  if (!image) throw new Error("There is no default image");
  const template = await bootFor(host());
  await host().runtime.close();
  const machines = join(directory, "store/machines");
  const [name = ""] = await readdir(machines);
  const record = JSON.parse(await readFile(join(machines, name, "machine.json"), "utf8"));
  const folder = join(machines, "mdead");
  await mkdir(join(folder, "journal"), { recursive: true });
  await rename(layers.volume(volume.id), join(folder, "volume"));
  const old = { ...record, id: "dead", name: "mdead", bootId: "another", snapshotLayers, volume: undefined };
  await writeFile(join(folder, "machine.json"), JSON.stringify(old));
  const line = {
    id: 1,
    at: 1,
    protocol: "dns",
    name: "web.test",
    allowed: true,
    count: 1,
    ended: 1,
    bytesIn: 0,
    bytesOut: 0,
  };
  await writeFile(join(folder, "egress.jsonl"), `${JSON.stringify(line)}\n`);
  await host().reopen();
  await dismiss(host(), template.id);
  return "dead";
}

/** a snapshot of two layers above the image, and the image's record without a base */
async function oldSnapshot(id: string): Promise<{ id: string; layers: string[] }> {
  const { runtime, directory } = host();
  const claim = runtime.layers.hold();
  const layers: string[] = [];
  for (const fill of generations) {
    layers.unshift((await runtime.layers.create(claim, async (files) => void (await fill(files)))).id);
  }
  const image = await runtime.images.get("host");
  if (!image) throw new Error("There is no default image");
  const { base, ...old } = image;
  const reference = imageReference(image);
  await writeFile(join(directory, `store/images/${reference}.json`), JSON.stringify(old));
  const record = { id, image: reference, layers, size: await runtime.layers.size(layers), createdAt: 1 };
  await writeFile(join(directory, `store/snapshots/${id}.json`), JSON.stringify(record));
  await claim.release();
  return { id, layers: [...layers] };
}
