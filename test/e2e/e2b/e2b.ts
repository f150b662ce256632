/** E2B's own npm clients, unmodified, and how to point them at a daemon. */

import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { createRequire } from "node:module";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { Sandbox as Sandbox1 } from "e2b-1";
import { beforeAll } from "vitest";
import { hashKey } from "../../../src/daemon/secrets.ts";
import { openStore } from "../../../src/store/sql-store.ts";
import type { TestDaemon } from "../../harness/daemon.ts";
import { type CliResult, compileCache, finished } from "../clients.ts";
import { redirectThisProcess } from "../redirected-process.ts";
import { Typist } from "../vercel/typist.ts";

/** sets the variables of the SDKs, for the tests of a file; version 1 has a fixed address, and needs the preload */
export function useDaemon(daemon: () => TestDaemon): void {
  beforeAll(async () => {
    const { url, key } = daemon();
    Object.assign(process.env, { E2B_API_URL: url, E2B_SANDBOX_URL: url, E2B_VOLUME_API_URL: url, E2B_API_KEY: key });
    await redirectThisProcess(daemon());
  });
}

/** Both have the same methods, as far as the tests use them; their types differ in parts that no test reads. */
export const sdks = [
  { version: "2.51", Sandbox },
  { version: "1.13", Sandbox: Sandbox1 as unknown as typeof Sandbox },
];

/** a second team, for the tests of a file; its key */
export function secondTeam(daemon: () => TestDaemon): string {
  const secret = `sk_${randomBytes(20).toString("hex")}`;
  beforeAll(async () => {
    const store = await openStore({ path: join(daemon().dataDir, "sandkeep.db") });
    const createdAt = Date.now();
    await store.insertTeam({ id: "team_second", slug: "second", createdAt });
    const project = { id: "prj_second", uuid: crypto.randomUUID(), teamId: "team_second", name: "default", createdAt };
    await store.insertProject(project);
    const key = { id: "key_second", teamId: "team_second", name: "second", hint: "", createdAt };
    await store.insertKey({ ...key, hash: hashKey(secret) });
    await store.close();
  });
  return secret;
}

/** a sandbox for the tests of a file or a group, killed after the last of them */
export function sandboxOf(create: () => Promise<Sandbox>): () => Sandbox {
  let sandbox: Sandbox | undefined;
  beforeAll(async () => {
    sandbox = await create();
    // The sandbox of a whole file ends with its daemon, which may be gone by then.
    return async () => void (await sandbox?.kill().catch(() => undefined));
  });
  return () => {
    if (!sandbox) throw new Error("The sandbox of these tests was not made");
    return sandbox;
  };
}

const require = createRequire(import.meta.url);
/** the command line */
export const program = require.resolve("@e2b/cli/dist/index.js");

/** runs the vendor's command line to its end, without the tests' own environment and with a home of its own */
export function cli(daemon: TestDaemon, home: string, args: string[], input = ""): Promise<CliResult> {
  const child = spawn(process.execPath, [program, ...args], {
    cwd: home,
    env: { ...environment(daemon, home), CI: "1" },
    stdio: ["pipe", "pipe", "pipe"],
  });
  child.stdin.end(input);
  return finished(child);
}

/** the same on a terminal */
export function cliOnTerminal(daemon: TestDaemon, home: string, args: string[]): Typist {
  return new Typist([process.execPath, program, ...args], { env: environment(daemon, home), cwd: home });
}

function environment({ url, key }: TestDaemon, home: string): NodeJS.ProcessEnv {
  return {
    PATH: process.env.PATH,
    HOME: home,
    E2B_API_URL: url,
    E2B_SANDBOX_URL: url,
    E2B_API_KEY: key,
    NO_UPDATE_NOTIFIER: "1",
    NODE_COMPILE_CACHE: compileCache,
    NO_COLOR: "1",
  };
}
