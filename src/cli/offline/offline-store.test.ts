/**
 * Tests of the data directory as the command line opens it: with the real launcher, beside a daemon, without leftovers.
 */

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { root, tempDir } from "../../../test/harness/harness.ts";
import { guestBinary, needs } from "../../../test/runner/needs.ts";
import { vercelConventions } from "../../api/vercel/conventions.ts";
import { openOfflineStore } from "./offline-store.ts";

const run = promisify(execFile);
const main = join(root, "src/main.ts");

test("the launcher makes, flattens and collects a layer, and nothing is left", async (context) => {
  needs(context, "root", "the guest binary");
  const [dataDir, runRoot] = [await tempDir(), await tempDir()];
  const store = await openOfflineStore({
    dataDir,
    conventions: vercelConventions.image,
    guest: async () => guestBinary,
    runRoot,
  });
  const { layers } = store;
  try {
    const claim = await layers.claim();
    const layer = await layers.create(claim, async (files) => void (await files.write("/a", Buffer.from("a"))));
    const flat = await layers.flatten(claim, [layer.id, layer.id]);
    await claim.release();
    const files = await layers.filesAt(flat.id);
    expect((await files.stat("/a")).size).toBe(1);
    files.close();
    expect(await layers.collect(async () => new Set([flat.id]))).toEqual([layer.id]);
    await layers.settled();
    expect(await readdir(join(store.store, "trash"))).toEqual([]);
  } finally {
    await store.close();
  }
  expect(await readdir(runRoot)).toEqual([]);
  expect(await readFile("/proc/self/mountinfo", "utf8")).not.toContain(dataDir);
});

test("the binary prints its usage and version, and refuses unknown commands", async () => {
  const { stdout } = await run(process.execPath, [main, "--help"]);
  expect(stdout).toMatch(/^Usage: sandkeep <command>/);
  const { version } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  for (const option of ["--version", "-V"])
    expect((await run(process.execPath, [main, option])).stdout).toBe(`${version}\n`);
  for (const command of ["frob", "toString", "__proto__"]) {
    await expect(run(process.execPath, [main, command])).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^sandkeep: Cannot do ".*": there is no such command\nhint: .*--help.*\n$/),
    });
  }
});

test("an image of Debian needs a program, and the error says how to install it", async (context) => {
  needs(context, "root", "the guest binary", "the command mkfs.btrfs");
  const bin = await tempDir();
  for (const name of ["mount", "umount", "unshare", "losetup", "mkfs.btrfs", "btrfs"]) {
    const place = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map((folder) => join(folder, name)).find(existsSync);
    if (place !== undefined) await symlink(place, join(bin, name));
  }
  const args = [main, "image", "build", "debian", "--data-dir", await tempDir()];
  await expect(run(process.execPath, args, { env: { PATH: bin } })).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /^sandkeep: Cannot build the image: mmdebstrap is not installed\nhint: apt-get install .* mmdebstrap$/m,
    ),
  });
});

test("an interrupted build of Debian leaves no process, mount or folder, and removes what an earlier one left", async (context) => {
  needs(context, "root", "the guest binary", "the command mkfs.btrfs");
  const [bin, temporary, dataDir] = [await tempDir(), await tempDir(), await tempDir()];
  const left = join(temporary, "sandkeep-debian-999999999-1-abcdef");
  await mkdir(join(left, "mmdebstrap.gone/proc"), { recursive: true });
  // It mounts, ignores signals and has a child, as mmdebstrap does.
  const script = `#!/bin/sh
    trap "" INT TERM
    mkdir "$TMPDIR/root" && mount -t tmpfs none "$TMPDIR/root" && sleep 1000 &
    until mountpoint -q "$TMPDIR/root"; do sleep 0.02; done
    echo "mounted in $TMPDIR" >&2
    wait
  `;
  await writeFile(join(bin, "mmdebstrap"), script, { mode: 0o755 });
  const env = { ...process.env, PATH: `${bin}:${process.env.PATH}`, TMPDIR: temporary };
  const child = spawn(process.execPath, [main, "image", "build", "debian", "--data-dir", dataDir], { env });
  const ended = once(child, "exit");
  let folder: string | undefined;
  for await (const text of child.stderr.setEncoding("utf8")) {
    folder = /mounted in (.*)/.exec(text)?.[1];
    if (folder !== undefined) break;
  }
  const names = await readdir(temporary);
  child.kill("SIGINT");
  expect(await ended).toEqual([1, null]);
  expect({ names, left: await readdir(temporary) }).toEqual({ names: [basename(folder ?? "")], left: [] });
  const mounts = await readFile("/proc/self/mountinfo", "utf8");
  expect([dataDir, temporary].filter((path) => mounts.includes(path))).toEqual([]);
  const lines = (await readdir("/proc"))
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => readFile(`/proc/${pid}/environ`, "utf8").catch(() => ""));
  expect((await Promise.all(lines)).filter((text) => text.includes(`TMPDIR=${temporary}/`))).toEqual([]);
});

test("the binary lists images", async (context) => {
  needs(context, "root", "the guest binary");
  const dataDir = await tempDir();
  const { stdout } = await run(process.execPath, [main, "image", "list", "--data-dir", dataDir]);
  expect(stdout).toBe("NAME  TEAM  LAYERS  SIZE  SHARED  OWN  AGE\n");
  expect(await readFile("/proc/self/mountinfo", "utf8")).not.toContain(dataDir);
});
