/**
 * A data directory of a version whose snapshots were chains of layers above those of their image: what is in it is
 * merged when it is first used, and nothing of it is lost.
 */

import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { FileSession } from "../src/runtime/linux/file-session.ts";
import { imageReference } from "../src/runtime/linux/images.ts";
import { bootFor } from "./conformance/runtime/host.ts";
import { run, sh } from "./conformance/runtime/run.ts";
import { eventually } from "./harness.ts";
import { expectNoCollision, lookAt } from "./inode-life.ts";
import { linuxHost } from "./linux-host.ts";

const host = linuxHost();

/** what a machine of that version left: made, changed and deleted files, and a directory of the host that was moved */
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

test("its snapshots boot with all their files, each with a number of its own", { timeout: 60_000 }, async () => {
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
  expect(await snapshots.collect()).toEqual(expect.arrayContaining(layers));
  const { snapshot } = await machine.stop({ snapshot: true });
  await snapshots.delete(id);
  await snapshots.collect();
  const next = await bootFor(host(), { root: { snapshot: snapshot?.id ?? "" } });
  expect((await sh(next, script)).stdout).toBe(`first\nsecond\nsecond\na\n${perl}`);
});

test("a machine that it left running can be stopped, and keeps what is in the layers that it stands on", async () => {
  const { layers } = await oldSnapshot("1".repeat(28));
  const machine = await bootFor(host());
  await sh(machine, "echo third > /srv/f");
  const { directory, runtime } = host();
  await runtime.close();
  // Its record, as that version wrote it.
  const machines = join(directory, "store/machines");
  for (const name of await readdir(machines)) {
    const path = join(machines, name, "machine.json");
    const { volume, ...record } = JSON.parse(await readFile(path, "utf8").catch(() => "{}"));
    if (record.id === machine.id) await writeFile(path, JSON.stringify({ ...record, snapshotLayers: layers }));
  }
  await host().reopen();
  await host().runtime.snapshots.delete("1".repeat(28));
  const collected = await host().runtime.snapshots.collect();
  expect(layers.filter((id) => collected.includes(id))).toEqual([]);
  const { snapshot } = (await host().runtime.machine(machine.id)?.stop({ snapshot: true })) ?? {};
  await host().runtime.forget(machine.id);
  expect(snapshot?.layers.slice(1)).toEqual(layers);
  const next = await bootFor(host(), { root: { snapshot: snapshot?.id ?? "" } });
  expect((await sh(next, "cat /srv/d/a /srv/e/c /srv/f")).stdout).toBe("first\nsecond\nthird\n");
  await eventually("its layers to be gone", async () => {
    await host().runtime.snapshots.collect();
    const left = await Promise.all(layers.map((id) => host().runtime.layers.get(id)));
    return left.every((layer) => layer === undefined);
  });
});

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
