/** Thousands of idle machines at once: their memory, the cost of a boot among them, adoption, and the end of all. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { LinuxRuntime } from "../src/runtime/linux/driver.ts";
import type { TestRuntime } from "../test/harness/machine.ts";
import { runToEnd } from "./boot.ts";
import { median, timed, verdict } from "./measure.ts";

const probes = 20;
const orphans = 1000;

export async function benchDensity(host: TestRuntime, most: number): Promise<string> {
  const alone = await bootTime(host.runtime, "alone");
  const before = availableMemory();
  await host.runtime.close();
  await bootAndDie(host);
  const { took: adoption, result: runtime } = await timed(() => host.reopen());
  const found = runtime.machines().length;
  if (found !== orphans) throw new Error(`Adopted ${found} machines, not ${orphans}`);
  const atThousand = await bootTime(runtime, "thousand");
  let live = orphans;
  const growTo = async (count: number) => {
    while (live < count) await runtime.boot({ id: `idle-${++live}`, root: { image: "host" } });
  };
  await growTo(most / 2);
  const atHalf = await bootTime(runtime, "half");
  await growTo(most);
  const each = (before - availableMemory()) / most / 2 ** 20;
  const end = await timed(() => Promise.all(runtime.machines().map((machine) => machine.stop())));
  const left = (await runtime.reconcile()).length;
  return [
    `${most} idle machines`,
    verdict("memory of each", each, 0.5, "MiB"),
    `  boot to the end of \`true\`: ${alone.toFixed(1)} ms alone, ${atThousand.toFixed(1)} at ${orphans}, ${atHalf.toFixed(1)} at ${most / 2}`,
    verdict(`boot at ${orphans} live`, atThousand / alone, 1.3, "x boot at 1 live"),
    verdict(`boot at ${most / 2} live`, atHalf / alone, 2, "x boot at 1 live"),
    verdict("adoption of 1,000 after kill -9", adoption, 1000, "ms"),
    verdict("all stopped", end.took / most, 5, "ms for each"),
    verdict("left over in the ledger", left, 0, "things"),
  ].join("\n");
}

/** machines whose owner was killed without warning */
async function bootAndDie({ directory, runRoot }: TestRuntime): Promise<void> {
  const script = fileURLToPath(new URL("owner.ts", import.meta.url));
  const owner = spawn(process.execPath, [script, directory, runRoot, String(orphans)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exited = once(owner, "exit");
  const ready = once(owner.stdout, "data");
  const first = await Promise.race([ready.then(() => "ready"), exited.then(() => "exited")]);
  if (first === "exited") throw new Error("The owner of the machines ended by itself");
  owner.kill("SIGKILL");
  await exited;
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

/** bytes available without swapping */
function availableMemory(): number {
  const line = readFileSync("/proc/meminfo", "utf8").match(/^MemAvailable:\s+(\d+) kB/m);
  return Number(line?.[1] ?? 0) * 1024;
}
