/** Acknowledged data is on the disk: a copy of the disk from that moment has every byte of it. */

import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Machine, SnapshotInfo } from "../../src/core/ports/runtime.ts";
import type { LinuxRuntime } from "../../src/runtime/linux/driver.ts";
import { sh } from "../conformance/runtime/run.ts";
import { type FragileDisk, fragileDisk } from "../disks/power-loss.ts";
import { runtimeAt } from "../harness/machine.ts";

/** much data in few files and little in many, never flushed by its writer */
const write =
  "mkdir -p /srv/many && cd /srv && head -c 60000000 /dev/urandom > large && for n in $(seq 300); do echo $n-$RANDOM > many/$n; done";
const sums = "cd /srv && find . -type f | sort | xargs sha256sum";

const captures: Record<string, (machine: Machine) => Promise<SnapshotInfo | undefined>> = {
  "a stop": async (machine) => (await machine.stop({ snapshot: true })).snapshot,
  "a snapshot of a running machine": (machine) => machine.snapshot(),
};

test.each(Object.entries(captures))(
  "after %s all files are complete, byte for byte",
  { timeout: 300_000 },
  async (_, capture) => {
    await using undo = new AsyncDisposableStack();
    const disk = await fragileDisk(undo);
    const { snapshot, before } = await captured(undo, disk, capture);
    await disk.restore();
    const runtime = await opened(undo, disk, "after");
    expect(await runtime.snapshots.get(snapshot.id)).toMatchObject({ id: snapshot.id, image: snapshot.image });
    const machine = await runtime.boot({ id: "again", root: { snapshot: snapshot.id } });
    expect((await sh(machine, sums)).stdout).toBe(before);
  },
);

/** a machine that has written and is captured; the disk is saved at the moment of the acknowledgement */
async function captured(
  undo: AsyncDisposableStack,
  disk: FragileDisk,
  capture: (machine: Machine) => Promise<SnapshotInfo | undefined>,
): Promise<{ snapshot: SnapshotInfo; before: string }> {
  await using first = new AsyncDisposableStack();
  undo.defer(() => first.disposeAsync());
  const runtime = await opened(first, disk, "before");
  const machine = await runtime.boot({ id: "first", root: { image: "host" } });
  expect((await sh(machine, write)).status.code).toBe(0);
  const before = (await sh(machine, sums)).stdout;
  const snapshot = await capture(machine);
  await disk.keep();
  if (!snapshot) throw new Error("There is no snapshot");
  expect(before.split("\n")).toHaveLength(302);
  await first.disposeAsync();
  return { snapshot, before };
}

async function opened(undo: AsyncDisposableStack, disk: FragileDisk, bootId: string): Promise<LinuxRuntime> {
  const runRoot = await mkdtemp("/run/sandkeep-test-");
  undo.defer(() => rm(runRoot, { recursive: true, force: true }));
  const storage = { kind: "image" as const, imageSize: 4 * 2 ** 30 };
  const runtime = runtimeAt(join(disk.directory, "data"), runRoot, { storage, bootId });
  undo.defer(() => runtime.shutdown());
  await runtime.open();
  return runtime;
}
