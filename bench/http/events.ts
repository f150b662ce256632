/**
 * Changes of sandboxes at a steady rate, each an event that one client follows: how late it hears of them. Then a million
 * events as fast as the daemon takes them: what its memory and the record of its events grow by.
 */

import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { SandkeepClient } from "../../src/client/client.ts";
import { startDaemon, type TestDaemon } from "../../test/harness/daemon.ts";
import { eventually, type Undo } from "../../test/harness/harness.ts";
import { machineSpeed, shared, speedInWords } from "../machine-speed.ts";
import { quantile, timed, verdict } from "../measure.ts";
import { RawClient } from "../raw-client.ts";

/** events a second, and for how long, in ms */
const rate = 1000;
const steady = 20_000;

/** until an idle daemon has collected its garbage, in ms */
const collected = 15_000;

/** connections that make changes: each change waits for the disk, several together */
const writers = 32;

/** sandboxes whose tags change */
const sandboxes = 20;

interface Follower {
  /** how many events have come, and how late each of them was, in ms */
  received: number;
  readonly lags: number[];
  gaps: number;
}

export async function benchEvents(undo: Undo, million: number): Promise<string> {
  const daemon = await startDaemon(undo);
  const client = new SandkeepClient(daemon);
  const names = Array.from({ length: sandboxes }, (_, index) => `busy-${index}`);
  for (const name of names) await client.call("createSandbox", { body: { name } });
  const clients = await Promise.all(Array.from({ length: writers }, () => RawClient.open(daemon)));
  const follower = follow(client, undo);
  let sent = 0;
  const change = async (caller: RawClient) => {
    const tags = { change: String(sent++) };
    await caller.request("PATCH", `/sandkeep/v1/sandboxes/${names[sent % names.length]}`, { tags });
  };
  await eventually("the follower has an event", async () => {
    await change(clients[0] as RawClient);
    return follower.received > 0;
  });
  const speed = speedInWords(await machineSpeed());
  const lines = [
    await benchSteady(follower, clients, change),
    await benchMillion(daemon, follower, clients, change, million),
  ];
  for (const each of clients) each.close();
  return ["events of changes to sandboxes, one follower over HTTP", speed, ...lines].join("\n");
}

function follow(client: SandkeepClient, undo: Undo): Follower {
  const follower: Follower = { received: 0, lags: [], gaps: 0 };
  const end = new AbortController();
  const reading = (async () => {
    for await (const event of client.events({ topics: "sandbox" }, end.signal)) {
      if (event.type === "gap") follower.gaps++;
      else follower.lags.push(Date.now() - event.at);
      follower.received++;
    }
  })().catch((error) => {
    if (!end.signal.aborted) throw error;
  });
  undo.defer(async () => {
    end.abort();
    await reading;
  });
  return follower;
}

/** changes in time with the clock; those that the daemon has no time for are late, and counted as late */
async function benchSteady(
  follower: Follower,
  clients: RawClient[],
  change: (client: RawClient) => Promise<void>,
): Promise<string> {
  const before = follower.received;
  follower.lags.length = 0;
  const begin = performance.now();
  const count = (rate * steady) / 1000;
  let next = 0;
  const { took } = await timed(() =>
    shared(clients, count, async (client) => {
      const wait = begin + (next++ * 1000) / rate - performance.now();
      if (wait > 1) await pause(wait);
      await change(client);
    }),
  );
  await eventually("every event has come", () => follower.received - before >= count);
  const [p50, p99] = [quantile(follower.lags, 0.5), quantile(follower.lags, 0.99)];
  return [
    verdict("changes that were made", (count / took) * 1000, rate * 0.99, "a second", "least"),
    `  an event is heard of after ${p50} ms (median), ${p99} ms (p99), ${Math.max(...follower.lags)} ms at most; ${follower.gaps} gaps`,
    verdict("p99 of that", p99, 100, "ms"),
  ].join("\n");
}

async function benchMillion(
  daemon: TestDaemon,
  follower: Follower,
  clients: RawClient[],
  change: (client: RawClient) => Promise<void>,
  million: number,
): Promise<string> {
  const flood = async (count: number) => {
    const expected = follower.received + count;
    await shared(clients, count, change);
    await eventually("every event has come", () => follower.received >= expected);
    follower.lags.length = 0;
  };
  // What the first events make the daemon load and compile is not what events leave.
  await flood(million / 20);
  await pause(collected);
  const before = ownMemory(daemon.pid);
  const { took } = await timed(async () => {
    for (let round = 0; round < 20; round++) await flood(million / 20);
  });
  const grownAtOnce = ownMemory(daemon.pid) - before;
  await pause(collected);
  const grown = ownMemory(daemon.pid) - before;
  return [
    `  ${million} events in ${(took / 1000).toFixed(0)} s, ${((million / took) * 1000).toFixed(0)} a second; ${follower.gaps} gaps`,
    `  the daemon's memory grew by ${grownAtOnce.toFixed(1)} MB until the last event`,
    verdict("growth of the daemon once it is idle", grown, 16, "MB"),
    verdict("record of the events on the disk", recordSize(daemon), 2.1, "MB"),
  ].join("\n");
}

/** pages that only this process has, in MB */
function ownMemory(pid: number): number {
  const text = readFileSync(`/proc/${pid}/status`, "utf8");
  return (Number(/^RssAnon:\s+(\d+) kB$/m.exec(text)?.[1]) * 1024) / 1e6;
}

/** in MB */
function recordSize({ dataDir }: TestDaemon): number {
  const folder = join(dataDir, "events");
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return files.reduce((sum, file) => sum + statSync(join(file.parentPath, file.name)).size, 0) / 1e6;
}
