/**
 * Very many sessions that end at the same moment, because their time is over or because clients delete their sandboxes.
 * Measures how long a GET takes meanwhile, and how long that lasts.
 */

import { Agent, request } from "node:http";
import { raw } from "../test/e2e/clients.ts";
import { startDaemon, type TestDaemon } from "../test/harness/daemon.ts";
import type { Undo } from "../test/harness/harness.ts";
import { askedDuring, inWords, type Meanwhile, makeCrowd, many } from "./crowd.ts";
import { quantile, verdict } from "./measure.ts";

/** requests that clients have open at the same time */
const connections = 1000;

export interface ExpirySize {
  /** sessions */
  all: number;
  /** number of them with a machine */
  live: number;
}

export async function benchExpiry(undo: Undo, size: ExpirySize): Promise<string> {
  const settings = { SANDKEEP_MAX_SANDBOXES: String(size.all + 100) } as const;
  const daemon = await startDaemon(undo, settings);
  const due = await makeCrowd(daemon, size.live, size.all);
  const expired = await askedDuring(daemon, "crowd-0", async () => {
    await due.end();
    while (await isAnyRunning(daemon)) await new Promise((resolve) => setTimeout(resolve, 500));
  });
  const other = await startDaemon(undo, settings);
  const { names } = await makeCrowd(other, size.live, size.all);
  await raw(other, "POST", "/v3/sandboxes", { body: { name: "watched" } });
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const deleted = await askedDuring(other, "watched", () =>
    many(connections, names, (name) => deletion(other, agent, name)),
  );
  agent.destroy();
  const which = `${size.all} sessions, ${size.live} of them with a machine`;
  return [...lines(`${which}, due at once`, expired), ...lines(`${which}, deleted at once`, deleted)].join("\n");
}

function lines(what: string, meanwhile: Meanwhile): string[] {
  return [
    `${what}: over after ${inWords(meanwhile)}`,
    verdict("GET meanwhile, p99", quantile(meanwhile.waits, 0.99), 100, "ms"),
  ];
}

async function isAnyRunning(daemon: TestDaemon): Promise<boolean> {
  const states = ["running", "stopping"];
  const counts = await Promise.all(
    states.map(async (state) => {
      const { json } = await raw(daemon, "GET", `/v2/sandboxes?limit=1&status=${state}`);
      return json.sandboxes.length as number;
    }),
  );
  return counts.some((count) => count > 0);
}

/** without fetch(), which would open one connection for each */
function deletion(daemon: TestDaemon, agent: Agent, name: string): Promise<void> {
  const headers = { authorization: `Bearer ${daemon.key}` };
  return new Promise((resolve, reject) => {
    const asked = request(`${daemon.url}/v2/sandboxes/${name}`, { method: "DELETE", agent, headers }, (answer) => {
      answer.resume().on("end", resolve).on("error", reject);
      if (answer.statusCode !== 200) reject(new Error(`DELETE of "${name}" was answered ${answer.statusCode}`));
    });
    asked.on("error", reject).end();
  });
}
