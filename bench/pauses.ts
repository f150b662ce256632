/** Pause and connect on E2B's API, of a sandbox whose program has touched 1 GB of memory. */

import { Sandbox } from "e2b";
import { startDaemon } from "../test/harness/daemon.ts";
import { eventually, type Undo } from "../test/harness/harness.ts";
import { interleaved, median, type Subject, table, verdict } from "./measure.ts";
import { bubblewrap } from "./peers.ts";

const rounds = 30;
const gigabyte = 1e9;

export async function benchPauses(undo: Undo): Promise<string> {
  const { url, key } = await startDaemon(undo);
  const sandbox = await Sandbox.create({ apiKey: key, apiUrl: url, sandboxUrl: url, timeoutMs: 600_000 });
  // bytes() alone would share one page of zeros.
  const program = `b = bytearray(b"x") * ${gigabyte}; print("up", flush=True); import time; time.sleep(1e6)`;
  const command = await sandbox.commands.run(`python3 -c '${program}'`, { background: true, timeoutMs: 0 });
  await eventually("the memory is touched", () => command.stdout.includes("up"));
  command.wait().catch(() => undefined);
  const { memUsed } = (await sandbox.getMetrics())[0] ?? { memUsed: 0 };
  if (memUsed < gigabyte) throw new Error(`The program has touched only ${memUsed} bytes`);
  const post = (name: string, path: string, status: number): Subject => ({
    name,
    async run() {
      const headers = { "x-api-key": key, "content-type": "application/json" };
      const answer = await fetch(`${url}${path}`, { method: "POST", headers, body: "{}" });
      const text = await answer.text();
      if (answer.status !== status) throw new Error(`${name}: ${answer.status} ${text}`);
      return undefined;
    },
  });
  const series = await interleaved(
    [
      bubblewrap(["true"]),
      post("pause", `/sandboxes/${sandbox.sandboxId}/pause`, 204),
      post("connect", `/v2/sandboxes/${sandbox.sandboxId}/connect`, 201),
    ],
    rounds,
  );
  await sandbox.kill();
  const of = (name: string) => median(series.find((one) => one.name === name)?.samples ?? []);
  return [
    table("with 1 GB of touched memory", series, "bwrap --unshare-all"),
    verdict("pause", of("pause"), 20, "ms"),
    verdict("connect", of("connect"), 20, "ms"),
  ].join("\n");
}
