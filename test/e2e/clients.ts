/** The vendor's own packages, unmodified, and the two ways to point them at a daemon of ours. */

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import type * as sdk3 from "@vercel/sandbox";
import { beforeAll } from "vitest";
import type { TestDaemon } from "../harness/daemon.ts";
import { root, tempDir, type Undo } from "../harness/harness.ts";

/** the methods of both versions of the SDK; the older one is a subset except for its private members */
export type Sdk = Pick<typeof sdk3, "Sandbox" | "Snapshot" | "APIError" | "StreamError">;

const require = createRequire(import.meta.url);

/** Each is loaded at its first use: that takes half a second of processor time, and most files here use neither. */
export const sdks: Record<"3.5.0" | "2.9.2", Sdk> = {
  get "3.5.0"() {
    return moduleOf(require.resolve("@vercel/sandbox"));
  },
  get "2.9.2"() {
    return moduleOf(require.resolve("vercel-sandbox-2"));
  },
};

/** the package's module that `import` finds, which is beside the one that `require` finds */
function moduleOf(commonJs: string): Sdk {
  // The classes of the older version have other private members, which no caller sees.
  return require(commonJs.replace(/\.cjs$/, ".js")) as Sdk;
}

/** pauses the sandbox with this tag, on the one API that has a verb for it */
export async function pauseTagged(daemon: TestDaemon, tag: string, value: string): Promise<void> {
  const headers = { "x-api-key": daemon.key };
  const { json } = await raw(daemon, "GET", `/v2/sandboxes?metadata=${tag}%3D${value}`, { headers });
  const { status } = await raw(daemon, "POST", `/sandboxes/${json[0]?.sandboxID}/pause`, { headers, body: {} });
  if (status !== 204) throw new Error(`The sandbox was not paused: ${status}`);
}

export const preload = pathToFileURL(join(root, "src/redirect/preload.mjs")).href;
/** where Node keeps what it compiled of the vendors' command lines: large programs, which start a third faster with it */
export const compileCache = join(root, "node_modules/.cache/sandkeep-compiled");
export const team = "team_default";
export const project = "prj_default";

/** the arguments of every static method of the SDK */
export interface Credentials {
  token: string;
  teamId: string;
  projectId: string;
}

export function credentials(daemon: TestDaemon): Credentials {
  return { token: daemon.key, teamId: team, projectId: project };
}

/** one version of the SDK, pointed at the daemon in one of two ways */
export interface Way extends Sdk {
  name: string;
  version: keyof typeof sdks;
  /** an argument for every static method */
  auth: Credentials & { fetch?: typeof fetch };
}

/** every version in both ways; `auth` exists once the daemon runs, and the preload is loaded with it */
export function waysTo(daemon: () => TestDaemon): Way[] {
  const versions = Object.keys(sdks) as (keyof typeof sdks)[];
  return versions.flatMap((version) => [
    {
      ...only(sdks[version]),
      version,
      name: `SDK ${version} through the preload`,
      get auth() {
        return credentials(daemon());
      },
    },
    {
      ...only(sdks[version]),
      version,
      name: `SDK ${version} through its fetch option`,
      get auth() {
        return { ...credentials(daemon()), fetch: fetchTo(daemon()) };
      },
    },
  ]);
}

/** the default user of commands in sandboxes of this version */
export function userOf(version: keyof typeof sdks): string {
  return version === "3.5.0" ? "ubuntu" : "vercel-sandbox";
}

/** the default directory of commands in sandboxes of this version, which have an image or a runtime */
export function cwdOf(version: keyof typeof sdks): string {
  return version === "3.5.0" ? "/vercel" : "/vercel/sandbox";
}

function only({ Sandbox, Snapshot, APIError, StreamError }: Sdk): Sdk {
  return { Sandbox, Snapshot, APIError, StreamError };
}

/** for the SDK's `fetch` option, which works without a preload */
export function fetchTo(daemon: TestDaemon): typeof fetch {
  return (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input);
    if (url.host !== "vercel.com") throw new Error(`The SDK asked for ${url.href}, which is not ours`);
    return fetch(new URL(url.pathname + url.search, daemon.url), init);
  };
}

export type AnySandbox = Awaited<ReturnType<Sdk["Sandbox"]["create"]>>;

/** arguments with which the SDK's methods reach the daemon */
export function accessTo(daemon: TestDaemon): Credentials & { fetch: typeof fetch } {
  return { ...credentials(daemon), fetch: fetchTo(daemon) };
}

/**
 * A sandbox with the file "kept", which was written while its first session ran, and when that ends, in ms since 1970. A
 * session has little time, so that a test can wait for its end; if a busy host needs longer, the next one has more.
 */
export async function writtenInTime(make: (timeout: number) => Promise<AnySandbox>) {
  for (let timeout = 2000; ; timeout *= 4) {
    const sandbox = await make(timeout);
    const { sessionId, startedAt } = sandbox.currentSession();
    const isWritten = await sandbox.writeFiles([{ path: "kept", content: "kept" }]).then(
      () => sandbox.currentSession().sessionId === sessionId,
      () => false,
    );
    if (isWritten || timeout > 60_000) return { sandbox, sessionId, endsAt: (startedAt?.getTime() ?? 0) + timeout };
    await sandbox.delete();
  }
}

export type Policy = NonNullable<NonNullable<Parameters<Sdk["Sandbox"]["create"]>[0]>["networkPolicy"]>;

export function createUnder(daemon: TestDaemon, networkPolicy: Policy, persistent: boolean): Promise<AnySandbox> {
  return sdks["3.5.0"].Sandbox.create({ ...accessTo(daemon), persistent, networkPolicy });
}

/** one sandbox for a whole group of tests */
export function sandboxOf(create: () => Promise<AnySandbox>): () => AnySandbox {
  let sandbox: AnySandbox | undefined;
  beforeAll(async () => {
    sandbox = await create();
    return () => sandbox?.delete();
  });
  return () => {
    if (!sandbox) throw new Error("The sandbox of these tests was not made");
    return sandbox;
  };
}

/** a raw request to the daemon, for requests that the vendor's clients never send */
export async function raw(
  daemon: TestDaemon,
  method: string,
  path: string,
  options: RawOptions = {},
): Promise<RawAnswer> {
  const { body, key = daemon.key, headers = {} } = options;
  const answer = await fetch(new URL(path, daemon.url), {
    method,
    headers: {
      authorization: `Bearer ${key}`,
      ...(body !== undefined && { "content-type": "application/json" }),
      ...headers,
    },
    ...(body !== undefined && {
      body: typeof body === "string" || body instanceof Uint8Array ? body : JSON.stringify(body),
    }),
    ...(options.signal && { signal: options.signal }),
  });
  const text = await answer.text();
  return { status: answer.status, headers: answer.headers, text, json: parsed(text) };
}

export interface RawOptions {
  body?: unknown;
  key?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export interface RawAnswer {
  status: number;
  headers: Headers;
  text: string;
  /** the body if it is JSON */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of any shape
  json: any;
}

const environments = new Map<string, Promise<NodeJS.ProcessEnv>>();

/** the environment after the lines of `sandkeep env vercel`, starting with only PATH */
export async function vercelEnvironment({ url, key }: TestDaemon): Promise<NodeJS.ProcessEnv> {
  const made = environments.get(url) ?? environmentAfterEnv(url, key);
  environments.set(url, made);
  return { ...(await made) };
}

async function environmentAfterEnv(url: string, key: string): Promise<NodeJS.ProcessEnv> {
  const { stdout } = await promisify(execFile)("/bin/sh", ["-ec", 'eval "$(bin/sandkeep env vercel)"; env -0'], {
    cwd: root,
    env: { PATH: process.env.PATH, SANDKEEP_URL: url, SANDKEEP_API_KEY: key },
  });
  return Object.fromEntries(stdout.split("\0").map((entry) => entry.split(/=(.*)/s).slice(0, 2)));
}

export type CliVersion = "4.5.0" | "3.5.5" | "2.5.12";

const programs: Record<CliVersion, string> = {
  "4.5.0": require.resolve("sandbox-cli-4/bin/sandbox.mjs"),
  "3.5.5": require.resolve("sandbox-cli-3/bin/sandbox.mjs"),
  "2.5.12": require.resolve("sandbox-cli-2/bin/sandbox.mjs"),
};

export interface CliResult {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** a directory that is linked to the default project, as `vercel link` leaves it; deleted with the test or the stack */
export async function linkedHome(undo?: Undo): Promise<string> {
  const home = await tempDir(undo);
  await mkdir(join(home, ".vercel"));
  await writeFile(join(home, ".vercel/project.json"), JSON.stringify({ orgId: team, projectId: project }));
  return home;
}

/** runs the vendor's command line to its end, with the scope in the environment, as users do */
export async function cli(version: CliVersion, daemon: TestDaemon, home: string, args: string[]): Promise<CliResult> {
  return finished(startCli(version, args, { env: cliEnvironment(daemon, home), cwd: home }));
}

export function startCli(version: CliVersion, args: string[], options: { env: NodeJS.ProcessEnv; cwd: string }) {
  const [file = "", ...rest] = cliCommand(version, args);
  return spawn(file, rest, { ...options, stdio: ["ignore", "pipe", "pipe"] });
}

export function cliCommand(version: CliVersion, args: string[]): string[] {
  return [process.execPath, programs[version], ...args];
}

/** without the environment of the person who runs the tests: no token, no home, no colours */
export function cliEnvironment(daemon: TestDaemon, home: string): NodeJS.ProcessEnv {
  return {
    PATH: process.env.PATH,
    HOME: home,
    XDG_DATA_HOME: join(home, "data"),
    XDG_CONFIG_HOME: join(home, "config"),
    XDG_CACHE_HOME: join(home, "cache"),
    // The command line writes answers that it rejects there.
    TMPDIR: home,
    NODE_OPTIONS: `--import=${preload}`,
    SANDKEEP_URL: daemon.url,
    VERCEL_AUTH_TOKEN: daemon.key,
    NODE_COMPILE_CACHE: compileCache,
    NO_COLOR: "1",
    CI: "1",
  };
}

export async function finished(child: ChildProcess): Promise<CliResult> {
  let stdout = "";
  let stderr = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  return { code, stdout, stderr };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
