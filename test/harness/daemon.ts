/**
 * A real daemon for tests: the same as with `npm start`, in a process, with its own data, sockets and key, on a port of
 * its own. It can be killed and started again on the same data and port; at the end nothing of it is left on the host.
 */

import { type ChildProcess, type ChildProcessByStdio, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { afterAll, beforeAll } from "vitest";
import type { Namespace } from "../internet/internet.ts";
import { noteFolder } from "../runner/leftovers.ts";
import { root, type Undo } from "./harness.ts";
import { expectNothingLeft } from "./linux-host.ts";
import { runtimeAt } from "./machine.ts";
import { reservedPort } from "./network/reserved-port.ts";
import { egressCommand, sandkeepCommand } from "./package.ts";
import { prepareDatabase, prepareStore } from "./prepared-store.ts";
import { cgroupsOf, mountsOf, processesOf } from "./traces.ts";

export interface TestDaemon {
  /** stays the same over restarts */
  url: string;
  key: string;
  dataDir: string;
  runDir: string;
  pid: number;
  /** the exit code if it ended by itself; undefined while it runs */
  ended(): number | undefined;
  /** its stdout since the last start */
  said(): string;
  /** its complete stderr */
  complaints(): string;
  /** kills it without warning; sandboxes go on */
  kill9(): Promise<void>;
  /** stops it and waits until it has ended; sandboxes go on */
  stop(): Promise<void>;
  /** starts it again after kill9() or stop(), with these settings added from now on */
  start(changes?: Settings): Promise<void>;
}

/** Settings by their name in the environment: SANDKEEP_… */
export type Settings = Record<`SANDKEEP_${string}`, string>;

/** the daemon of this test file: runs before its first test, and is gone without a trace after its last */
export function daemonOfFile(settings: Settings = {}): () => TestDaemon {
  const undo = new AsyncDisposableStack();
  let daemon: TestDaemon | undefined;
  beforeAll(async () => {
    daemon = await startDaemon(undo, settings);
  });
  afterAll(() => undo.disposeAsync());
  return () => {
    if (!daemon) throw new Error("The daemon of these tests did not start");
    return daemon;
  };
}

/** Where and how to run a daemon. */
export interface Start {
  /** its network namespace, if not the host's; its url is valid only there */
  namespace?: Namespace;
  /** the command to run; default: `sandkeep serve` of the package */
  command?: [string, ...string[]];
  /** PATH, if not that of the tests */
  path?: string;
  /** an existing data directory, which stays; default: a new folder */
  dataDir?: string;
  /** the folder in which a new data directory is made; default that of temporary files */
  folder?: string;
  /** whether it makes its store, as at a first start, instead of finding one; default: if another option is given */
  fromNothing?: boolean;
}

export async function startDaemon(undo: Undo, settings: Settings = {}, start: Start = {}): Promise<TestDaemon> {
  const { namespace, command = [sandkeepCommand(), "serve"], path = process.env.PATH, folder = tmpdir() } = start;
  const { fromNothing = Boolean(start.command ?? start.dataDir ?? start.folder) } = start;
  const dataDir = start.dataDir ?? (await mkdtemp(join(folder, "sandkeep-e2e-")));
  noteFolder(undo, dataDir);
  if (start.dataDir === undefined) undo.defer(() => rm(dataDir, { recursive: true, force: true }));
  if (!fromNothing) {
    await prepareStore(dataDir, "of-daemons", firstStart);
    if (settings.SANDKEEP_DATABASE_URL === undefined) await prepareDatabase(dataDir);
  }
  const runDir = await mkdtemp("/run/sandkeep-e2e-");
  noteFolder(undo, runDir);
  undo.defer(() => rm(runDir, { recursive: true, force: true }));
  const key = `sk_test_${randomBytes(16).toString("hex")}`;
  const own = { ...settings };
  let complaints = "";
  const port = String(await reservedPort(undo));
  let running = await begin();
  undo.defer(() => leaveNothing(dataDir, runDir));
  undo.defer(() => end(running.child, "SIGTERM"));

  function begin(): Promise<Running> {
    const env: NodeJS.ProcessEnv = {
      ...process.env,
      PATH: path,
      SANDKEEP_POOL_HOT: "2",
      SANDKEEP_POOL_WARM: "2",
      // No lookup of a test may leave this machine.
      SANDKEEP_DNS: "127.0.0.1:9",
      SANDKEEP_API_KEY: key,
      SANDKEEP_RUN_DIR: runDir,
      ...own,
      SANDKEEP_DATA_DIR: dataDir,
      SANDKEEP_PORT: port,
    };
    const [file = "", ...args] = namespace ? namespace.command(...command).flat() : command;
    const child = spawn(file, args, { cwd: root, env, stdio: ["ignore", "pipe", "pipe"] });
    return served(child, (text) => {
      complaints += text;
    });
  }

  return {
    url: running.url,
    key,
    dataDir,
    runDir,
    get pid() {
      return running.child.pid ?? 0;
    },
    ended: () => running.child.exitCode ?? undefined,
    said: () => running.said,
    complaints: () => complaints,
    kill9: () => end(running.child, "SIGKILL"),
    stop: () => end(running.child, "SIGTERM"),
    async start(changes = {}) {
      Object.assign(own, changes);
      running = await begin();
    },
  };
}

/** starts a daemon on a new data directory and stops it; the directory stays */
async function firstStart(dataDir: string): Promise<void> {
  await using undo = new AsyncDisposableStack();
  await mkdir(dataDir, { mode: 0o700 });
  await startDaemon(undo, { SANDKEEP_POOL_HOT: "0", SANDKEEP_POOL_WARM: "0" }, { dataDir });
}

interface Running {
  child: ChildProcess;
  url: string;
  /** its complete stdout */
  said: string;
}

/** resolves when it is ready */
async function served(
  child: ChildProcessByStdio<null, Readable, Readable>,
  complain: (text: string) => void,
): Promise<Running> {
  let failure = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    failure += text;
    complain(text);
  });
  const lines = createInterface(child.stdout);
  const running: Running = { child, url: "", said: "" };
  running.url = await new Promise<string>((resolve, reject) => {
    lines.on("line", (line) => {
      running.said += `${line}\n`;
      const url = /^sandkeep ready (https?:\S+)$/.exec(line)?.[1];
      if (url !== undefined) resolve(url);
    });
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`The daemon ended with ${code} before it was ready: ${failure}`)));
  });
  child.once("exit", (code, signal) => {
    if (!asked.has(child)) complain(`The daemon ended by itself: ${signal ?? `code ${code}`}\n`);
  });
  return running;
}

/** daemons that a test has ended itself */
const asked = new WeakSet<ChildProcess>();

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  asked.add(child);
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = new Promise((resolve) => child.once("exit", resolve));
  child.kill(signal);
  await exited;
}

/** stops the machines that outlived their daemon, its launcher and its mounts, and checks that they are gone */
async function leaveNothing(dataDir: string, runDir: string): Promise<void> {
  const before = processesOf(dataDir);
  if (before.length + mountsOf(dataDir).length + cgroupsOf(dataDir).length > 0) {
    const runtime = runtimeAt(dataDir, runDir, { egress: egressCommand() });
    await runtime.open();
    await runtime.shutdown();
  }
  await expectNothingLeft(dataDir, before);
}
