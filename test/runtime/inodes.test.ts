/** Every file in a machine has its own inode number, and keeps it: over stops, forks, live snapshots and restores. */

import { execFile } from "node:child_process";
import { createReadStream } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { vercelConventions } from "../../src/api/vercel/conventions.ts";
import type { Machine } from "../../src/core/ports/runtime.ts";
import { importRootfs } from "../../src/runtime/linux/oci/import.ts";
import { bootFor, dismiss } from "../conformance/runtime/host.ts";
import { sh } from "../conformance/runtime/run.ts";
import { tempDir } from "../harness/harness.ts";
import { linuxHost } from "../harness/linux-host.ts";
import { expectNoCollision, expectSameNumbers, lookAt, next, type Step, work } from "./inode-life.ts";

const host = linuxHost({ pool: { hot: 1, warm: 1 } });

test("files written after a resume are not confused with those written before it", async () => {
  let machine = await bootFor(host());
  await sh(machine, "mkdir /srv/d && cd /srv && echo AAAA > d/a1 && ln d/a1 d/a2 && echo a > /srv/a");
  machine = await resumed(machine);
  await sh(machine, "cd /srv && mkdir e && echo BBBB > e/b1 && ln e/b1 e/b2 && echo b > /srv/b");
  const script = `cd /srv && mkdir copy && tar c d e | tar x -C copy && cat copy/d/a1 copy/d/a2 copy/e/b1 copy/e/b2
    stat -c %i d/a1 d/a2 e/b1 e/b2 | sort -u | wc -l; cmp -s a b || echo differ; mv b a && cat a`;
  const { stdout, stderr } = await sh(machine, script);
  expect(stderr).toBe("");
  expect(stdout).toBe("AAAA\nAAAA\nBBBB\nBBBB\n2\ndiffer\nb\n");
});

test("over generations no two files share a number, and untouched files keep theirs", {
  timeout: 120_000,
}, async () => {
  const steps: Step[] = ["stop", "live", "stop", "fork", "stop", "restore", "stop", "fork"];
  let machine = await host().boot();
  onTestFinished(() => dismiss(host(), machine.id));
  const kept: string[] = [];
  let before = await lookAt(machine);
  expectNoCollision(before, "in a fresh machine");
  for (const [generation, step] of steps.entries()) {
    await work(machine, generation, generation === 2);
    const worked = await lookAt(machine, "/srv /etc /vercel");
    expectNoCollision(worked, `in generation ${generation}`);
    machine = await next(host(), machine, step, kept);
    before = await lookAt(machine, "/srv /etc /vercel");
    expectNoCollision(before, `after ${step} of generation ${generation}`);
    if (step !== "restore") expectSameNumbers(worked, before, `after ${step} of generation ${generation}`);
  }
  expectNoCollision(await lookAt(machine), "in the whole root at the end");
});

test("in an imported image also directories and changed files keep their numbers, and links stay links", async () => {
  await importTiny("tiny");
  let machine = await bootFor(host(), { root: { image: "tiny" } });
  const fresh = await lookAt(machine);
  expectNoCollision(fresh, "in a fresh machine");
  expect(fresh.get("/data/one")?.number).toBe(fresh.get("/data/two")?.number);
  await sh(machine, "echo more >> /data/one; mkdir /data/new; echo x > /data/new/x; ln /data/new/x /data/new/y");
  const worked = await lookAt(machine);
  expect((await sh(machine, "cat /data/two; test ! -e /data/hidden && echo hidden")).stdout).toBe(
    "one\nmore\nhidden\n",
  );
  for (const path of ["/", "/data", "/data/one", "/etc/passwd"]) {
    expect([path, worked.get(path)?.number]).toEqual([path, fresh.get(path)?.number]);
  }
  machine = await resumed(machine);
  const after = await lookAt(machine);
  expectNoCollision(after, "after a resume");
  const numbers = (seen: typeof after) => [...seen].map(([path, { number }]) => [path, number.split(":")[1]]);
  expect(numbers(after)).toEqual(numbers(worked));
});

async function resumed(machine: Machine): Promise<Machine> {
  const { snapshot } = await machine.stop({ snapshot: true });
  if (!snapshot) throw new Error("The stop took no snapshot");
  await host().runtime.forget(machine.id);
  return bootFor(host(), { root: { snapshot: snapshot.id } });
}

/** an image with the host's shell, two names of one file, and a whiteout, which a lowest layer may have */
async function importTiny(name: string): Promise<void> {
  const root = await tempDir();
  for (const folder of ["bin", "data", "etc"]) await mkdir(join(root, folder));
  await writeFile(join(root, "data/one"), "one\n");
  const script = `ln data/one data/two; mknod data/hidden c 0 0
    for program in sh cat find ln mkdir test tar; do
      path=$(command -v $program); [ -e "$path" ] || continue; cp -L "$path" bin/
      ldd "$path" | grep -o '/[^ ]*' | while read -r library; do mkdir -p ".$(dirname "$library")"; cp -Ln "$library" ".$library"; done
    done; tar cf image.tar bin data etc lib* usr 2>/dev/null || tar cf image.tar bin data etc lib*`;
  await promisify(execFile)("sh", ["-c", script], { cwd: root, env: { PATH: "/usr/bin:/bin:/usr/sbin:/sbin" } });
  const { layers, images } = host().runtime;
  const stores = { store: join(host().directory, "store"), layers, images, conventions: vercelConventions.image };
  await importRootfs(stores, createReadStream(join(root, "image.tar")), { name, node: false });
}
