/** Many sessions whose time is over at the same moment: how long a GET takes while they are stopped, and how long that lasts. */

import { raw } from "../test/e2e/clients.ts";
import { startDaemon } from "../test/harness/daemon.ts";
import type { Undo } from "../test/harness/harness.ts";
import { quantile, verdict } from "./measure.ts";

/** how long making them all may take, in ms */
const lead = 90_000;
const atOnce = 8;

export async function benchExpiry(undo: Undo, count: number): Promise<string> {
  const daemon = await startDaemon(undo, { SANDKEEP_MAX_SANDBOXES: String(count + 100) });
  const due = Date.now() + lead;
  let made = 0;
  const maker = async () => {
    while (made < count) {
      const body = { name: `due-${made++}`, timeout: Math.max(1000, due - Date.now()) };
      const answer = await raw(daemon, "POST", "/v3/sandboxes", { body });
      if (answer.status !== 200) throw new Error(answer.text);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, maker));
  const early = Math.max(0, due - Date.now() - 200);
  await new Promise((resolve) => setTimeout(resolve, early));
  const waits: number[] = [];
  const running = async () => (await raw(daemon, "GET", "/v2/sandboxes?limit=1&status=running")).json.sandboxes.length;
  let left = count;
  const headers = { authorization: `Bearer ${daemon.key}` };
  while (left > 0) {
    const asked = performance.now();
    await (await fetch(`${daemon.url}/v2/sandboxes/due-0`, { headers })).text();
    waits.push(performance.now() - asked);
    if (waits.length % 20 === 0) left = await running();
  }
  const lasted = (Date.now() - due) / 1000;
  return [
    `${count} persistent sessions due at once: stopped within ${lasted.toFixed(1)} s (made ${early === 0 ? "too late" : "in time"})`,
    verdict("GET meanwhile, p99", quantile(waits, 0.99), 100, "ms"),
  ].join("\n");
}
