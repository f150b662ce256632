/**
 * Raw HTTP on connections that stay open: the time of a create and of a command, and how many requests a second eight
 * callers get. The machine is shared, so each rate also has the CPU time that the daemon takes for one request, which
 * depends less on other programs, and /health is the reference: a request that does nothing.
 */

import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import type { TestDaemon } from "../../test/harness/daemon.ts";
import { processesOf } from "../../test/harness/traces.ts";
import { cpuTime } from "../cpu-time.ts";
import { callers, machineSpeed, scaledVerdict, shared, speedInWords } from "../machine-speed.ts";
import { interleaved, median, quantile, type Subject, table, timed, verdict } from "../measure.ts";
import { host } from "../peers.ts";
import { RawClient } from "../raw-client.ts";

const sandboxes = "/api/v2/sandboxes";
const echo = { command: "echo", args: ["hi"], env: {}, sudo: false, wait: true, logs: true };

interface Made {
  name: string;
  session: string;
}

async function create(client: RawClient): Promise<Made> {
  const { sandbox, session } = JSON.parse(await client.request("POST", sandboxes, { persistent: false }));
  return { name: sandbox.name, session: session.id };
}

async function run(client: RawClient, { session }: Made): Promise<void> {
  const text = await client.request("POST", `${sandboxes}/sessions/${session}/cmd`, echo);
  if (!text.includes('"exitCode":0')) throw new Error(text);
}

const remove = (client: RawClient, { name }: Made) => client.request("DELETE", `${sandboxes}/${name}`);

/** one caller: a create, and a command to its end */
export async function benchRaw(daemon: TestDaemon): Promise<string> {
  const client = await RawClient.open(daemon);
  const made = await create(client);
  const subjects: Subject[] = [
    host(["echo", "hi"]),
    subject("GET /health", () => client.request("GET", "/health")),
    subject("POST cmd, to its end", () => run(client, made)),
  ];
  const quick = await interleaved(subjects, 200, 20);
  const creates = await interleaved([createSubject(client)], 40);
  await remove(client, made);
  client.close();
  const speed = await machineSpeed();
  const [command, creation] = [quick[2]?.samples ?? [], creates[0]?.samples ?? []];
  return [
    table("raw HTTP on an open connection", [...quick, ...creates], "spawn, no isolation"),
    speedInWords(speed),
    scaledVerdict(speed, "create over raw HTTP", median(creation), 3, "ms"),
    scaledVerdict(speed, "command over raw HTTP", median(command), 1.8, "ms"),
    verdict("p99 of that command", quantile(command, 0.99) / median(command), 2, "x its median"),
  ].join("\n");
}

function subject(name: string, request: () => Promise<unknown>): Subject {
  return {
    name,
    async run() {
      await request();
      return undefined;
    },
  };
}

function createSubject(client: RawClient): Subject {
  return {
    name: "POST sandboxes",
    async run() {
      const made = await create(client);
      return async () => {
        await remove(client, made);
        await pause(60); // the pool fills while nothing happens
      };
    },
  };
}

interface Rate {
  name: string;
  count: number;
  /** least number a second */
  goal?: number;
  request: (client: RawClient, made: Made) => Promise<unknown>;
}

const rates: Rate[] = [
  { name: "GET /health", count: 8000, request: (client) => client.request("GET", "/health") },
  {
    name: "GET of a session",
    count: 8000,
    goal: 12_000,
    request: (client, { session }) => client.request("GET", `${sandboxes}/sessions/${session}`),
  },
  { name: "command to its end", count: 2000, goal: 2000, request: run },
  {
    name: "create and delete",
    count: 200,
    goal: 400,
    request: async (client) => remove(client, await create(client)),
  },
];

/** eight callers at once, this program included */
export async function benchRates(daemon: TestDaemon): Promise<string> {
  const clients = await Promise.all(Array.from({ length: callers }, () => RawClient.open(daemon)));
  const [first] = clients;
  if (!first) return "";
  const made = await create(first);
  const lines: string[] = [`requests a second with ${callers} callers`];
  for (const { name, count, goal, request } of rates) {
    const all = (times: number) => shared(clients, times, (client) => request(client, made));
    // Before and after: a busy machine's speed changes from one second to the next.
    const speedBefore = await machineSpeed();
    await all(Math.ceil(count / 5));
    const before = cpuTime(daemon.pid);
    const { took } = await timed(() => all(count));
    const cpu = (cpuTime(daemon.pid) - before) / count;
    const rate = (count / took) * 1000;
    lines.push(`  ${name}: ${rate.toFixed(0)}, ${cpu.toFixed(3)} ms of the daemon's CPU time each`);
    const speed = (speedBefore + (await machineSpeed())) / 2;
    if (goal !== undefined) lines.push(speedInWords(speed), scaledVerdict(speed, name, rate, goal, "a second"));
  }
  await remove(first, made);
  for (const client of clients) client.close();
  return lines.join("\n");
}

/** what the daemon and its egress process take while nothing happens; memory that they share counts once */
export function benchMemory(daemon: TestDaemon): string {
  const pids = new Set([daemon.pid, ...processesOf(daemon.dataDir)]);
  const sizes = [...pids].map((pid) => ({ pid, size: proportionalSize(pid) })).filter(({ size }) => size > 8);
  const shown = sizes
    .map(({ pid, size }) => `${pid === daemon.pid ? "daemon" : "egress"} ${size.toFixed(0)}`)
    .join(", ");
  const sum = sizes.reduce((all, { size }) => all + size, 0);
  return [`memory of the idle daemon: ${shown} MB`, verdict("idle daemon and egress process", sum, 120, "MB")].join(
    "\n",
  );
}

/** in MB */
function proportionalSize(pid: number): number {
  try {
    const text = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
    return (Number(/^Pss:\s+(\d+) kB$/m.exec(text)?.[1]) * 1024) / 1e6;
  } catch {
    return 0; // it has ended
  }
}
