/**
 * Times over HTTP: with Vercel's own SDK create to first output, a probe and `node -v`, and a hundred creates at once;
 * and raw, without the SDK's share.
 */

import { Sandbox } from "@vercel/sandbox";
import { accessTo } from "../../test/e2e/clients.ts";
import { startDaemon, type TestDaemon } from "../../test/harness/daemon.ts";
import type { Undo } from "../../test/harness/harness.ts";
import { machineSpeed, scaledVerdict } from "../machine-speed.ts";
import { interleaved, median, type Subject, table, timed, verdict } from "../measure.ts";
import { bubblewrap, firstOutput, host } from "../peers.ts";
import { benchMemory, benchRates, benchRaw } from "./rates.ts";

const rounds = 30;
const atOnce = 100;

export async function benchHttp(undo: Undo): Promise<string> {
  const daemon = await startDaemon(undo, { SANDKEEP_POOL_HOT: "16", SANDKEEP_POOL_WARM: "4" });
  // The pool fills, and then the daemon frees what its start has left.
  for (let round = 0; round < 3; round++) await settled();
  const results = [benchMemory(daemon), await benchCreate(daemon)];
  // After creates the pool fills and volumes are freed in the background: the rest is measured on an idle machine.
  for (const part of [benchEcho, benchRaw, benchProbe, benchRates, benchMany]) {
    await settled();
    results.push(await part(daemon));
  }
  return results.join("\n\n");
}

function settled(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 3000));
}

async function benchCreate(daemon: TestDaemon): Promise<string> {
  const subjects: Subject[] = [
    host(["echo", "hi"]),
    bubblewrap(["echo", "hi"]),
    {
      name: "sandkeep, SDK over HTTP",
      async run() {
        const sandbox = await Sandbox.create({ ...accessTo(daemon), persistent: false });
        const command = await sandbox.runCommand("echo", ["hi"]);
        if (command.exitCode !== 0) throw new Error(`echo ended with ${command.exitCode}`);
        return async () => {
          await sandbox.delete();
          await new Promise((resolve) => setTimeout(resolve, 60)); // the pool fills while nothing happens
        };
      },
    },
  ];
  const series = await interleaved(subjects, rounds);
  const of = (name: string) => median(series.find((one) => one.name === name)?.samples ?? []);
  return [
    table("create to output of `echo`, from a program", series, "bwrap --unshare-all"),
    verdict("create to output", of("sandkeep, SDK over HTTP") / of("bwrap --unshare-all"), 1.2, "x bwrap"),
  ].join("\n");
}

async function benchEcho(daemon: TestDaemon): Promise<string> {
  const sandbox = await Sandbox.create({ ...accessTo(daemon), persistent: false });
  const session = sandbox.currentSession().sessionId;
  const url = `${daemon.url}/api/v2/sandboxes/sessions/${session}/cmd`;
  const body = JSON.stringify({ command: "echo", args: ["hi"], env: {}, sudo: false, wait: true, logs: true });
  const headers = { authorization: `Bearer ${daemon.key}`, "content-type": "application/json" };
  const series = await interleaved(
    [
      {
        name: "POST cmd, to its end",
        async run() {
          const text = await (await fetch(url, { method: "POST", headers, body })).text();
          if (!text.includes('"exitCode":0')) throw new Error(text);
          return undefined;
        },
      },
    ],
    200,
    20,
  );
  await sandbox.delete();
  return [
    table("`echo` over HTTP", series),
    scaledVerdict(await machineSpeed(), "echo over HTTP", median(series[0]?.samples ?? []), 1.8, "ms"),
  ].join("\n");
}

/** what a program does first in a new sandbox: it looks at the shell, and then runs Node */
async function benchProbe(daemon: TestDaemon): Promise<string> {
  const probe = ["-c", "uname; id -u; pwd"];
  const subjects: Subject[] = [
    {
      name: "sh and node -v, no isolation",
      async run() {
        await firstOutput("sh", probe);
        await firstOutput("node", ["-v"]);
        return undefined;
      },
    },
    {
      name: "create, sh and node -v, SDK",
      async run() {
        const sandbox = await Sandbox.create({ ...accessTo(daemon), persistent: false });
        for (const [name, args] of [["sh", probe] as const, ["node", ["-v"]] as const]) {
          const { exitCode } = await sandbox.runCommand(name, [...args]);
          if (exitCode !== 0) throw new Error(`${name} ended with ${exitCode}`);
        }
        return async () => {
          await sandbox.delete();
          await new Promise((resolve) => setTimeout(resolve, 60)); // the pool fills while nothing happens
        };
      },
    },
  ];
  const series = await interleaved(subjects, rounds);
  const [bare, ours] = series.map(({ samples }) => median(samples));
  return [
    table("create to `node -v`", series, "sh and node -v, no isolation"),
    verdict("create, probe and node -v", (ours ?? 0) / (bare ?? 1), 1.3, "x no isolation"),
  ].join("\n");
}

/** the same hundred programs with and without a sandbox around each */
async function benchMany(daemon: TestDaemon): Promise<string> {
  const probe = ["-c", "node -e 1"];
  const bare = await timed(() => Promise.all(Array.from({ length: atOnce }, () => firstOutput("sh", probe))));
  const sandboxed = await timed(() =>
    Promise.all(
      Array.from({ length: atOnce }, async () => {
        const sandbox = await Sandbox.create({ ...accessTo(daemon), persistent: false, resources: { vcpus: 1 } });
        const { exitCode } = await sandbox.runCommand("sh", probe);
        if (exitCode !== 0) throw new Error(`node ended with ${exitCode}`);
        return sandbox;
      }),
    ),
  );
  await Promise.all(sandboxed.result.map((sandbox) => sandbox.delete()));
  return [
    `${atOnce} at once, each running node: ${sandboxed.took.toFixed(0)} ms, without isolation ${bare.took.toFixed(0)} ms`,
    verdict("creates at once", sandboxed.took / bare.took, 1.5, "x no isolation"),
  ].join("\n");
}
