/**
 * The recipes of docs/agents.md, word for word: their blocks of shell lines run in a project folder, against a daemon in
 * the internet of test/internet/internet.ts, whose registry has the given packages and whose model follows a script.
 */

import { execFile, spawn } from "node:child_process";
import { mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import type { TestDaemon } from "../../harness/daemon.ts";
import { root, tempDir, type Undo } from "../../harness/harness.ts";
import { sandkeepCommand } from "../../harness/package.ts";
import { ended, type Internet, linesOf, openInternet } from "../../internet/internet.ts";
import { startDaemonOn } from "../../internet/internet-daemon.ts";
import type { ModelRequest } from "../../internet/model-servers.ts";

/** the agents by the headings of docs/agents.md, with their image and the header that has the key */
export const agents = {
  "Claude Code": { image: "claude", host: "api.anthropic.com", header: "x-api-key" },
  Codex: { image: "codex", host: "api.openai.com", header: "authorization" },
  OpenCode: { image: "opencode", host: "api.anthropic.com", header: "x-api-key" },
} as const;

export type AgentName = keyof typeof agents;

/** the key that must not be inside; as a pattern that does not match itself */
export const key = "sk-real-5b1f7c0d";
export const keyPattern = "sk-re[a]l-5b1f7c0d";

export interface Ran {
  code: number;
  stdout: string;
  stderr: string;
}

export class Bench {
  readonly daemon: TestDaemon;
  /** what the model and the registry were asked, in order */
  readonly requests: ModelRequest[];
  /** a folder with a project of one file, "main.txt" */
  readonly project: string;
  readonly #path: string;

  private constructor(daemon: TestDaemon, requests: ModelRequest[], project: string, path: string) {
    this.daemon = daemon;
    this.requests = requests;
    this.project = project;
    this.#path = path;
  }

  /** `archives`: the folder with the packages of the registry */
  static async open(undo: Undo, archives: string): Promise<Bench> {
    const internet = await openInternet(undo);
    const requests = await modelServers(internet, undo, archives);
    const daemon = await startDaemonOn(internet, undo);
    const folder = await tempDir(undo);
    const [bin, project] = [join(folder, "bin"), join(folder, "project")];
    for (const each of [bin, project]) await mkdir(each);
    await symlink(sandkeepCommand(), join(bin, "sandkeep"));
    await writeFile(join(project, "main.txt"), "bug\n");
    return new Bench(daemon, requests, project, `${bin}:${process.env.PATH}`);
  }

  /** runs lines of bash in the project, as a user of the daemon who has the key */
  async run(lines: string, task = ""): Promise<Ran> {
    const env = {
      ...process.env,
      PATH: this.#path,
      SANDKEEP_URL: this.daemon.url,
      SANDKEEP_API_KEY: this.daemon.key,
      ANTHROPIC_API_KEY: key,
      OPENAI_API_KEY: key,
      TASK: task,
    };
    const options = { cwd: this.project, env, maxBuffer: 2 ** 26 };
    return new Promise((resolve) => {
      const child = execFile("bash", ["-euc", lines], options, (_, stdout, stderr) =>
        resolve({ code: child.exitCode ?? -1, stdout, stderr }),
      );
      child.stdin?.end();
    });
  }

  /** runs lines that must succeed, and returns their output */
  async output(lines: string, task?: string): Promise<string> {
    const { code, stdout, stderr } = await this.run(lines, task);
    if (code !== 0) throw new Error(`The lines ended with ${code}: ${lines}\n${stdout}\n${stderr}`);
    return stdout;
  }

  file(name: string): Promise<string> {
    return readFile(join(this.project, name), "utf8");
  }

  /** the requests with a model's turns, since a position of the list */
  turnsSince(position: number): ModelRequest[] {
    const paths = ["/v1/messages", "/v1/responses"];
    return this.requests.slice(position).filter(({ method, path }) => method === "POST" && paths.includes(path));
  }
}

/** the bench of this test file; `archives` makes the packages of the registry, or returns undefined if it cannot */
export function benchOfFile(archives: (undo: Undo) => Promise<string | undefined>, timeout?: number) {
  const undo = new AsyncDisposableStack();
  let bench: Bench | undefined;
  beforeAll(async () => {
    const folder = await archives(undo);
    if (folder !== undefined) bench = await Bench.open(undo, folder);
  }, timeout);
  afterAll(() => undo.disposeAsync());
  return () => bench;
}

/** the blocks of shell lines below a heading of docs/agents.md */
export async function recipe(heading: string): Promise<string[]> {
  const text = await readFile(join(root, "docs/agents.md"), "utf8");
  const section = text.split(/^## /m).find((part) => part.startsWith(`${heading}\n`)) ?? "";
  return [...section.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, lines = ""]) => lines);
}

async function modelServers(internet: Internet, undo: Undo, archives: string): Promise<ModelRequest[]> {
  const script = join(root, "test/internet/model-servers.ts");
  const command = internet.world.command(process.execPath, script, archives);
  const servers = spawn(...command, { stdio: ["pipe", "pipe", "inherit"] });
  undo.defer(() => ended(servers));
  const line = linesOf(servers);
  await line();
  const requests: ModelRequest[] = [];
  void (async () => {
    for (;;) requests.push(JSON.parse(await line()) as ModelRequest);
  })().catch(() => undefined);
  return requests;
}
