/** The `sandkeep` command of this clone, run against the daemon of a test: with pipes, or on a real terminal. */

import { spawn } from "node:child_process";
import type { TestDaemon } from "../../harness/daemon.ts";
import { root } from "../../harness/harness.ts";
import { sandkeepCommand } from "../../harness/package.ts";
import { Typist } from "../vercel/typist.ts";
import { Screen } from "./screen.ts";

export interface Ran {
  code: number | null;
  stdout: string;
  stderr: string;
}

export class Cli {
  readonly #daemon: () => TestDaemon;
  /** further variables */
  readonly #env: NodeJS.ProcessEnv;

  constructor(daemon: () => TestDaemon, env: NodeJS.ProcessEnv = {}) {
    this.#daemon = daemon;
    this.#env = env;
  }

  get #options() {
    const { url, key } = this.#daemon();
    return { cwd: root, env: { ...process.env, SANDKEEP_URL: url, SANDKEEP_API_KEY: key, ...this.#env } };
  }

  /** runs a command to its end */
  run(args: string[], input: string | Buffer = ""): Promise<Ran> {
    return this.#ended([sandkeepCommand(), ...args], input);
  }

  /** runs a script of bash, in which $0 is the command */
  shell(script: string): Promise<Ran> {
    return this.#ended(["bash", "-c", script, sandkeepCommand()], "");
  }

  async #ended([program = "", ...args]: string[], input: string | Buffer): Promise<Ran> {
    const child = spawn(program, args, this.#options);
    const ran: Ran = { code: null, stdout: "", stderr: "" };
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      ran.stdout += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      ran.stderr += text;
    });
    // It may end without reading its input.
    child.stdin.on("error", () => undefined).end(input);
    ran.code = await new Promise((resolve) => child.once("close", resolve));
    return ran;
  }

  /** the JSON that a command prints */
  async json(args: string[]) {
    const { code, stdout, stderr } = await this.run([...args, "--json"]);
    if (code !== 0) throw new Error(`sandkeep ${args.join(" ")} ended with ${code}: ${stderr}`);
    return JSON.parse(stdout);
  }

  /** runs a command on a terminal of 24 rows and 80 columns */
  onTerminal(args: string[]): Typist {
    return this.onTerminalOf([sandkeepCommand(), ...args]);
  }

  /** runs a script of bash, in which $0 is the command, on a terminal whose screen can be looked at */
  onScreen(script: string, size: { rows?: number; columns?: number } = {}): Promise<Screen> {
    return Screen.of(["bash", "--norc", "--noprofile", "-c", script, sandkeepCommand()], { ...this.#options, ...size });
  }

  /** runs any program on a terminal of 24 rows and 80 columns; if it is `bash -c`, $0 in its script is the command */
  onTerminalOf(words: string[]): Typist {
    return new Typist(words[0] === "bash" ? [...words, sandkeepCommand()] : words, this.#options);
  }
}
