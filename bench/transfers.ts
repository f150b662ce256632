/**
 * A gigabyte over HTTP: an upload, a download and the output of a command, with curl as the client, beside a Node server
 * that only writes and sends a file; and a stop with a snapshot. Beside the rates it prints the daemon's processor time
 * and how much its memory grew.
 */

import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { SandkeepClient } from "../src/client/client.ts";
import { startDaemon, type TestDaemon } from "../test/harness/daemon.ts";
import type { Undo } from "../test/harness/harness.ts";
import { cpuTime } from "./cpu-time.ts";
import { plainServer } from "./file-server.ts";
import { machineSpeed, scaledVerdict } from "./machine-speed.ts";
import { interleaved, median, type Subject, table, timed, verdict } from "./measure.ts";

const run = promisify(execFile);
const gigabyte = 1_000_000_000;
const rounds = 3;

export async function benchTransfers(undo: Undo): Promise<string> {
  const daemon = await startDaemon(undo, {
    SANDKEEP_POOL_HOT: "8",
    SANDKEEP_MAX_OUTPUT: "1G",
    SANDKEEP_MAX_OUTPUT_TOTAL: "4G",
  });
  return [await benchStop(daemon), await benchGigabyte(undo, daemon)].join("\n\n");
}

/** a stop of a sandbox that has written a few files, to the answer that they are on the disk */
async function benchStop(daemon: TestDaemon): Promise<string> {
  const client = new SandkeepClient(daemon);
  const series = [{ name: "stop with a snapshot", samples: [] as number[] }];
  for (let round = 0; round < 30; round++) {
    const { name, session } = await started(client);
    await ended(client, session, "date > file");
    await new Promise((resolve) => setTimeout(resolve, 60)); // the pool fills while nothing happens
    const { took } = await timed(() => client.call("stopSession", { params: { session } }));
    series[0]?.samples.push(took);
    await client.call("deleteSandbox", { params: { sandbox: name } });
  }
  return [
    table("over HTTP", series),
    scaledVerdict(await machineSpeed(), "stop with a snapshot, power-safe", median(series[0]?.samples ?? []), 6, "ms"),
  ].join("\n");
}

async function benchGigabyte(undo: Undo, daemon: TestDaemon): Promise<string> {
  const client = new SandkeepClient(daemon);
  const { name, session } = await started(client);
  const source = join(daemon.dataDir, "source");
  await run("sh", ["-c", `head -c ${gigabyte} /dev/urandom > '${source}'`]);
  const plain = await plainServer(undo, join(daemon.dataDir, "plain"));
  const content = `${daemon.url}/sandkeep/v1/sessions/${session}/files/content?path=large`;
  const command = await ended(
    client,
    session,
    `yes 'a line of output, as long as many others are' | head -c ${gigabyte / 2}`,
  );
  const output = `${daemon.url}/sandkeep/v1/sessions/${session}/commands/${command}/output`;
  const cpu = { upload: [] as number[], download: [] as number[], output: [] as number[] };
  const ours = (what: keyof typeof cpu, args: string[]): Subject => ({
    name: what,
    async run() {
      const before = cpuTime(daemon.pid);
      await curl(["-H", `authorization: Bearer ${daemon.key}`, ...args]);
      cpu[what].push(cpuTime(daemon.pid) - before);
      return undefined;
    },
  });
  const theirs = (what: string, args: string[]): Subject => ({
    name: `${what}, plain server`,
    run: () => curl([...args, plain]),
  });
  const before = peakMemory(daemon.pid);
  const series = await interleaved(
    [
      theirs("upload", ["-T", source]),
      ours("upload", ["-T", source, content]),
      theirs("download", []),
      ours("download", [content]),
      ours("output", [output]),
    ],
    rounds,
    1,
  );
  const grown = peakMemory(daemon.pid) - before;
  await client.call("deleteSandbox", { params: { sandbox: name } });
  const rate = (what: string, bytes: number) =>
    bytes / 1000 / median(series.find((one) => one.name === what)?.samples ?? []);
  const time = (what: keyof typeof cpu) => `${what} ${(median(cpu[what]) / 1000).toFixed(2)} s`;
  return [
    table("1 GB, and 500 MB of output", series, "upload, plain server"),
    ...["upload, plain server", "download, plain server"].map(
      (what) => `  ${what}: ${rate(what, gigabyte).toFixed(0)} MB/s`,
    ),
    verdict("upload", rate("upload", gigabyte), 1000, "MB/s", "least"),
    verdict("download", rate("download", gigabyte), 1000, "MB/s", "least"),
    verdict("output of a command", rate("output", gigabyte / 2), 500, "MB/s", "least"),
    `  processor time of the daemon: ${time("upload")}, ${time("download")}, ${time("output")}`,
    verdict("growth of the daemon's peak memory", grown, 64, "MB"),
  ].join("\n");
}

async function started(client: SandkeepClient): Promise<{ name: string; session: string }> {
  const { name, session } = await client.call("createSandbox", { body: { persistent: true, timeout: 3_600_000 } });
  return { name, session: session.id };
}

/** runs a line of shell to its end, and returns the id of the command */
async function ended(client: SandkeepClient, session: string, line: string): Promise<string> {
  const { id } = await client.call("startCommand", {
    params: { session },
    body: { command: "sh", args: ["-c", line] },
  });
  const { exitCode } = await client.call("waitForCommand", { params: { session, command: id } });
  if (exitCode !== 0) throw new Error(`"${line}" ended with ${exitCode}`);
  return id;
}

async function curl(args: string[]): Promise<undefined> {
  await run("curl", ["--fail", "--silent", "--show-error", "-H", "expect:", "-o", "/dev/null", ...args]);
}

/** largest resident size so far, in MB */
function peakMemory(pid: number): number {
  return (Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) * 1024) / 1e6;
}
