/**
 * A neighbour's request while another sandbox floods the egress process that serves both, alternating with the same
 * request while there is no load. A sandbox that only computes is measured too: its cost comes from the processors, not
 * from the egress process.
 */

import type { TestDaemon } from "../../test/harness/daemon.ts";
import { type Flood, floods } from "../floods.ts";
import { median, verdict } from "../measure.ts";
import { create, outputOf, requests, requestTimes } from "./sandbox.ts";

/** how often quiet and flood alternate */
const turns = 2;
/** how long a flood takes to build up, in ms */
const rising = 1000;

const rules = [{ transform: [{ headers: { "x-bench": "1" } }] }];

export async function benchNeighbour(daemon: TestDaemon, some: readonly Flood[] = floods): Promise<string> {
  const neighbours = {
    opened: await create(daemon, { allow: { "web.test": rules } }),
    relayed: await create(daemon, { allow: ["web.test"] }),
  };
  const flooders = {
    "with rules": await create(daemon, { allow: { "www.other.test": rules, "other.test": [] } }),
    "allow-all": await create(daemon, "allow-all"),
  };
  const report = ["a neighbour's request while another sandbox floods"];
  for (const { name, policy, script } of some) {
    const quiet: Record<string, number[]> = {};
    const flooded: Record<string, number[]> = {};
    const measure = async (into: Record<string, number[]>) => {
      for (const [way, sandbox] of Object.entries(neighbours)) {
        into[way] = [...(into[way] ?? []), ...requestTimes(await outputOf(sandbox, ["node", "-e", requests]))];
      }
    };
    let did = "";
    for (let turn = 0; turn < turns; turn++) {
      await measure(quiet);
      const flood = await flooders[policy].runCommand({ cmd: "node", args: ["-e", script], detached: true });
      await new Promise((resolve) => setTimeout(resolve, rising));
      await measure(flooded);
      await flood.kill("SIGKILL");
      did = (await (await flood.wait()).stdout()).trim().split("\n").at(-1) ?? "";
    }
    for (const way of Object.keys(neighbours)) {
      const [before, then] = [median(quiet[way] ?? []), median(flooded[way] ?? [])];
      const what = `${name} (${did}): ${way} ${before.toFixed(1)} ms, then ${then.toFixed(1)} ms`;
      report.push(verdict(what, then / before, 2, "x quiet"));
    }
  }
  await Promise.all([...Object.values(neighbours), ...Object.values(flooders)].map((sandbox) => sandbox.delete()));
  return report.join("\n");
}
