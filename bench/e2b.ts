/**
 * Times with E2B's own SDKs, unmodified: create to first output, small and large files, a hundred creates at once, and
 * the code interpreter. Beside the times it prints the processor time of the daemon, which other programs of a busy
 * machine change less.
 */

import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { Sandbox as Interpreter } from "@e2b/code-interpreter";
import { Sandbox } from "e2b";
import { startDaemon, type TestDaemon } from "../test/harness/daemon.ts";
import type { Undo } from "../test/harness/harness.ts";
import { cpuTime } from "./cpu-time.ts";
import { plainServer } from "./file-server.ts";
import { interleaved, median, type Series, type Subject, table, timed, verdict } from "./measure.ts";
import { bubblewrap, firstOutput, host } from "./peers.ts";

const rounds = 30;
const atOnce = 100;
const megabytes = 100;

export async function benchE2b(undo: Undo): Promise<string> {
  const daemon = await startDaemon(undo, { SANDKEEP_POOL_HOT: "16", SANDKEEP_POOL_WARM: "4" });
  const results = [await benchCreate(daemon)];
  await settled();
  results.push(await benchFiles(undo, daemon));
  await settled();
  results.push(await benchMany(daemon));
  await settled();
  results.push(await benchInterpreter(daemon));
  return results.join("\n\n");
}

/** the SDK runs every command in a login shell; the others need not read this host's profile */
async function benchCreate(daemon: TestDaemon): Promise<string> {
  const program: [string, ...string[]] = ["/bin/bash", "-c", "echo hi"];
  const cpu = cpuOf(daemon);
  const subjects: Subject[] = [
    host(program),
    bubblewrap(program),
    {
      name: "sandkeep, SDK over HTTP",
      async run() {
        const sandbox = await cpu.during(async () => {
          const made = await Sandbox.create(accessTo(daemon));
          const { stdout } = await made.commands.run("echo hi");
          if (stdout !== "hi\n") throw new Error(`echo printed ${JSON.stringify(stdout)}`);
          return made;
        });
        return async () => {
          await sandbox.kill();
          await new Promise((resolve) => setTimeout(resolve, 60)); // the pool fills while nothing happens
        };
      },
    },
  ];
  const series = await interleaved(subjects, rounds);
  const ratio = medianOf(series, "sandkeep, SDK over HTTP") / medianOf(series, "bwrap --unshare-all");
  return [
    table("create to output of `echo`, from a program", series, "bwrap --unshare-all"),
    verdict("create to output", ratio, 1.5, "x bwrap"),
    cpu.line("create and echo"),
  ].join("\n");
}

/** beside a server on this host that only writes the body of a request to a file, and sends a file */
async function benchFiles(undo: Undo, daemon: TestDaemon): Promise<string> {
  const sandbox = await Sandbox.create({ ...accessTo(daemon), timeoutMs: 600_000 });
  const plain = await plainServer(undo, join(daemon.dataDir, "plain"));
  const text = randomBytes(512).toString("hex");
  const small = cpuOf(daemon);
  const smallSeries = await interleaved(
    [
      {
        name: "plain server",
        async run() {
          await (await fetch(plain, { method: "POST", body: text })).text();
          if ((await (await fetch(plain)).text()) !== text) throw new Error("The file is not what was written");
          return undefined;
        },
      },
      {
        name: "files.write and read, 1 KB",
        async run() {
          await small.during(async () => {
            await sandbox.files.write("small", text);
            if ((await sandbox.files.read("small")) !== text) throw new Error("The file is not what was written");
          });
          return undefined;
        },
      },
    ],
    100,
    20,
  );
  const bytes = new Uint8Array(randomBytes(megabytes * 1_000_000)).buffer;
  const large = cpuOf(daemon);
  const largeSeries = await interleaved(
    [
      {
        name: "upload, plain server",
        async run() {
          await (await fetch(plain, { method: "POST", body: new Blob([bytes]) })).text();
          return undefined;
        },
      },
      {
        name: "upload, form",
        async run() {
          await large.during(() => sandbox.files.write("large", bytes));
          return undefined;
        },
      },
      {
        name: "upload, stream",
        async run() {
          await large.during(() => sandbox.files.write("large", new Blob([bytes]).stream()));
          return undefined;
        },
      },
      {
        name: "download, plain server",
        async run() {
          await lengthOf((await fetch(plain)).body);
          return undefined;
        },
      },
      {
        name: "download, stream",
        async run() {
          await large.during(async () => lengthOf(await sandbox.files.read("large", { format: "stream" })));
          return undefined;
        },
      },
    ],
    8,
    2,
  );
  await sandbox.kill();
  const speed = (name: string) => (megabytes * 1000) / medianOf(largeSeries, name);
  const goal = (name: string) =>
    `  ${speed(name) >= 300 ? "ok  " : "MISS"} ${name}: ${speed(name).toFixed(0)} MB/s, goal 300 MB/s`;
  return [
    table("1 KB", smallSeries, "plain server"),
    verdict("write and read of 1 KB", medianOf(smallSeries, "files.write and read, 1 KB"), 6, "ms"),
    small.line("write and read"),
    "",
    table(`${megabytes} MB`, largeSeries),
    ...["upload, form", "upload, stream", "download, stream"].map(goal),
    large.line("transfer"),
  ].join("\n");
}

/** the same hundred programs with and without a sandbox around each */
async function benchMany(daemon: TestDaemon): Promise<string> {
  const line = "node -e 1";
  const bare = await timed(() =>
    Promise.all(Array.from({ length: atOnce }, () => firstOutput("/bin/bash", ["-c", line]))),
  );
  const cpu = cpuOf(daemon);
  const sandboxed = await timed(() =>
    cpu.during(() =>
      Promise.all(
        Array.from({ length: atOnce }, async () => {
          const sandbox = await Sandbox.create({ ...accessTo(daemon), requestTimeoutMs: 120_000 });
          await sandbox.commands.run(line);
          return sandbox;
        }),
      ),
    ),
  );
  await Promise.all(sandboxed.result.map((sandbox) => sandbox.kill()));
  return [
    `${atOnce} at once, each running node: ${sandboxed.took.toFixed(0)} ms, without isolation ${bare.took.toFixed(0)} ms`,
    verdict("creates at once", sandboxed.took / bare.took, 1.6, "x no isolation"),
    cpu.line(`${atOnce} creates`),
  ].join("\n");
}

/** beside a Python on this host that only loads what a kernel loads */
async function benchInterpreter(daemon: TestDaemon): Promise<string> {
  const kernel = host(["/usr/bin/python3", "-c", "import ipykernel.kernelapp; print()"]);
  const series: [Series, Series, Series] = [
    { name: "a Python with ipykernel", samples: [] },
    { name: "first runCode", samples: [] },
    { name: "later runCode", samples: [] },
  ];
  const cpu = cpuOf(daemon);
  for (let round = 0; round < 10; round++) {
    const alone = await timed(() => kernel.run());
    const sandbox = await Interpreter.create(accessTo(daemon));
    const first = await timed(() => answered(sandbox, "x = 20; x + 1", "21"));
    for (let n = 0; n < 20; n++) {
      const later = await cpu.during(() => timed(() => answered(sandbox, "x + 2", "22")));
      series[2].samples.push(later.took);
    }
    series[0].samples.push(alone.took);
    series[1].samples.push(first.took);
    await sandbox.kill();
    await settled(500);
  }
  return [
    table("code interpreter", series, "a Python with ipykernel"),
    verdict("first runCode", median(series[1].samples), 1000, "ms"),
    verdict("later runCode", median(series[2].samples), 15, "ms"),
    cpu.line("later runCode"),
  ].join("\n");
}

async function answered(sandbox: Interpreter, code: string, wanted: string): Promise<void> {
  const { text, error } = await sandbox.runCode(code);
  if (text !== wanted) throw new Error(`The code returned ${text}: ${error?.traceback}`);
}

function accessTo({ url, key }: TestDaemon): { apiKey: string; apiUrl: string; sandboxUrl: string } {
  return { apiKey: key, apiUrl: url, sandboxUrl: url };
}

async function lengthOf(body: ReadableStream<Uint8Array> | null): Promise<void> {
  let length = 0;
  for await (const chunk of body ?? []) length += chunk.length;
  if (length !== megabytes * 1_000_000) throw new Error(`Only ${length} bytes came`);
}

function medianOf(series: Series[], name: string): number {
  return median(series.find((one) => one.name === name)?.samples ?? []);
}

/** the pool fills and volumes are freed in the background, and what follows is measured on an idle machine */
async function settled(ms = 3000): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms));
}

/** counts the daemon's processor time while something runs */
function cpuOf({ pid }: TestDaemon) {
  let used = 0;
  let count = 0;
  return {
    async during<T>(work: () => Promise<T>): Promise<T> {
      const before = cpuTime(pid);
      const result = await work();
      used += cpuTime(pid) - before;
      count++;
      return result;
    },
    line: (what: string) => `  processor time of the daemon: ${(used / count).toFixed(2)} ms for each ${what}`,
  };
}
