/** Thousands of idle machines at once: their memory, what a boot costs among them, adoption, and the end of all. */

import { readFileSync } from "node:fs";
import type { LinuxRuntime } from "../src/runtime/linux/driver.ts";
import { runToEnd } from "./boot.ts";
import { median, timed, verdict } from "./measure.ts";

const probes = 20;

export async function benchDensity(
  runtime: LinuxRuntime,
  reopen: () => Promise<LinuxRuntime>,
  most: number,
): Promise<string> {
  const alone = await bootTime(runtime, "alone");
  const before = availableMemory();
  let atThousand = Number.NaN;
  let adoption = Number.NaN;
  let current = runtime;
  for (let i = 1; i <= most; i++) {
    await current.boot({ id: `idle-${i}`, root: { image: "host" } });
    if (i === 1000) {
      atThousand = await bootTime(current, "thousand");
      const opened = await timed(reopen);
      adoption = opened.took;
      current = opened.result;
      const found = current.machines().length;
      if (found !== 1000) throw new Error(`Adopted ${found} machines, not 1000`);
    }
  }
  const each = (before - availableMemory()) / most / 2 ** 20;
  const end = await timed(() => Promise.all(current.machines().map((machine) => machine.stop())));
  const left = (await current.reconcile()).length;
  return [
    `${most} idle machines`,
    verdict("memory of each", each, 1, "MiB"),
    verdict("boot at 1,000 live", atThousand / alone, 2, "x boot at 1 live"),
    verdict("adoption of 1,000", adoption, 1000, "ms"),
    verdict("all stopped", end.took, 10_000, "ms"),
    verdict("left over in the ledger", left, 0, "things"),
  ].join("\n");
}

async function bootTime(runtime: LinuxRuntime, name: string): Promise<number> {
  const samples: number[] = [];
  for (let i = 0; i < probes; i++) {
    const id = `${name}-${i}`;
    const { took, result } = await timed(async () => {
      const machine = await runtime.boot({ id, root: { image: "host" } });
      await runToEnd(machine, ["true"]);
      return machine;
    });
    samples.push(took);
    await result.stop();
    await runtime.forget(id);
  }
  return median(samples);
}

/** bytes that could be used without swapping */
function availableMemory(): number {
  const line = readFileSync("/proc/meminfo", "utf8").match(/^MemAvailable:\s+(\d+) kB/m);
  return Number(line?.[1] ?? 0) * 1024;
}
