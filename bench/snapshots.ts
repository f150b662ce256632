/** Stop with a snapshot, resume, fork and capture of a running machine, after few, large and many changes. */

import type { Machine } from "../src/core/ports/runtime.ts";
import type { Durability } from "../src/runtime/linux/components.ts";
import type { LinuxRuntime } from "../src/runtime/linux/driver.ts";
import { runToEnd } from "./boot.ts";
import { median, timed, verdict } from "./measure.ts";

interface Change {
  name: string;
  rounds: number;
  /** makes the change, in a shell */
  script: string;
}

const changes: Change[] = [
  { name: "10 MB", rounds: 15, script: "mkdir /data && head -c 10000000 /dev/urandom > /data/file" },
  { name: "1 GB", rounds: 3, script: "mkdir /data && head -c 1000000000 /dev/zero > /data/file" },
  {
    name: "100,000 files",
    rounds: 3,
    script:
      "mkdir /data && cd /data && seq 1 100 | xargs mkdir && for d in $(seq 1 100); do (cd $d && seq 1 1000 | xargs touch); done",
  },
];

let count = 0;

export async function benchSnapshots(runtime: LinuxRuntime, durability: Durability): Promise<string> {
  const lines = [
    `durability "${durability}"`,
    "file system changed   stop+snapshot  resume->output  fork->output  live snapshot (synced)",
  ];
  const verdicts: string[] = [];
  for (const change of changes) {
    const took = { stop: [] as number[], resume: [] as number[], fork: [] as number[], live: [] as number[] };
    for (let round = 0; round < change.rounds; round++) await measure(runtime, change, took);
    const cells = [took.stop, took.resume, took.fork, took.live].map((samples) => median(samples).toFixed(2));
    lines.push(`${change.name.padEnd(20)} ${cells.map((cell) => `${cell} ms`.padStart(14)).join(" ")}`);
    verdicts.push(
      verdict(`stop with snapshot, ${change.name}`, median(took.stop), 5, "ms"),
      verdict(`resume to output, ${change.name}`, median(took.resume), 20, "ms"),
      verdict(`fork to output, ${change.name}`, median(took.fork), 10, "ms"),
      verdict(`live snapshot, ${change.name}`, median(took.live), 20, "ms"),
    );
  }
  return [...lines, ...verdicts].join("\n");
}

async function measure(
  runtime: LinuxRuntime,
  change: Change,
  took: Record<"stop" | "resume" | "fork" | "live", number[]>,
) {
  const line = `sandbox-${count}`;
  const machine = await boot(runtime, { image: "host" }, line);
  await runToEnd(machine, ["sh", "-c", change.script]);
  await runtime.sync();
  const live = await timed(() => machine.snapshot());
  took.live.push(live.took);
  await runtime.ready();
  const stopped = await timed(() => machine.stop({ snapshot: true }));
  took.stop.push(stopped.took);
  const snapshot = stopped.result.snapshot?.id ?? "";
  await runtime.ready();
  const resumed = await timed(() => bootAndRun(runtime, snapshot, line));
  took.resume.push(resumed.took);
  await runtime.ready();
  const forked = await timed(() => bootAndRun(runtime, snapshot, `${line}-fork`));
  took.fork.push(forked.took);
  for (const used of [resumed.result, forked.result]) {
    await used.stop();
    await runtime.forget(used.id);
  }
  await runtime.forget(machine.id);
  for (const id of [live.result.id, snapshot]) await runtime.snapshots.delete(id);
  await runtime.snapshots.collect();
  await runtime.layers.settled();
  await runtime.ready();
}

async function bootAndRun(runtime: LinuxRuntime, snapshot: string, line: string): Promise<Machine> {
  const machine = await boot(runtime, { snapshot }, line);
  await runToEnd(machine, ["ls", "/data"]);
  return machine;
}

function boot(runtime: LinuxRuntime, root: { image: string } | { snapshot: string }, line: string): Promise<Machine> {
  count++;
  return runtime.boot({ id: `snap-${process.pid}-${count}`, root, line });
}
