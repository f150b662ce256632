/** What a command gets from the program around it, and how it reads its words: options, names, programs. */

import type { ParseArgsConfig } from "node:util";
import type { KeyPlaces } from "./client/connection.ts";
import { CliError, misuse } from "./errors.ts";

export interface CommandContext extends KeyPlaces {
  input: NodeJS.ReadStream;
  output: NodeJS.WriteStream;
  errors: NodeJS.WriteStream;
  /** emits SIGINT, SIGTERM and SIGHUP */
  signals: NodeJS.EventEmitter;
  /** ms since 1970 */
  now(): number;
  print(line: string): void;
  warn(line: string): void;
  /** resolves when the stream takes more */
  write(stream: NodeJS.WriteStream, data: string | Uint8Array): Promise<void>;
}

/** A program in a session. */
export interface Program {
  session: string;
  command: string;
}

/** exit codes of this program for signals */
export const exitCodes = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 };

export interface ProgramSpec {
  /** the program and its arguments; none for the image's own */
  words: string[];
  session: string;
  /** whether it reads this program's input */
  interactive: boolean;
  /** whether it gets a terminal */
  tty: boolean;
  json: boolean;
  env?: Record<string, string>;
  cwd?: string | undefined;
  user?: string | undefined;
  /** what happens to it if this program leaves it alone, as a sentence */
  afterwards?: string;
}

/** what the daemon must know to start a program */
export function startOf(
  { words, interactive, tty, env, cwd, user }: Omit<ProgramSpec, "session" | "json">,
  context: CommandContext,
) {
  const [command, ...args] = words;
  return {
    ...(command !== undefined && { command, args }),
    env: { ...(tty && { TERM: terminalName(context.environment) }), ...env },
    ...(cwd !== undefined && { cwd }),
    ...(user !== undefined && { user }),
    ...(tty ? { terminal: sizeOf(context.output) } : { stdin: interactive }),
  };
}

/** a terminal that images know; else the most usual one */
function terminalName({ TERM = "" }: NodeJS.ProcessEnv): string {
  return /^(xterm|screen|tmux|linux)(-256color)?$/.test(TERM) ? TERM : "xterm-256color";
}

export function encodingOf(json: boolean): "text" | "base64" {
  return json ? "text" : "base64";
}

/** ms before each further attempt to connect: a daemon that is restarted is back within a minute */
export const pauses = [100, 200, 500, 1000, 2000, ...Array<number>(12).fill(5000)];

/** the size of the terminal here */
export function sizeOf({ rows, columns }: NodeJS.WriteStream): { rows: number; columns: number } {
  return { rows: rows || 24, columns: columns || 80 };
}

/** may return an exit code; any other value means 0 */
export type Command = (args: string[], context: CommandContext) => Promise<unknown>;

/** prints the usage of a command */
export function showUsage(usage: string, { print }: CommandContext): undefined {
  print(usage.trimEnd());
}

/** Node's own. An import would compute the values of all getters of node:util, a fifth of the time of a short command. */
export const { parseArgs } = process.getBuiltinModule("node:util");

type Options = NonNullable<ParseArgsConfig["options"]>;

/**
 * Options and operands of a command line; every command also has -h and --help. `others`: options of other tools, with
 * their dashes, and what to write instead of them.
 */
export async function readArgs<const T extends Options>(
  args: string[],
  usage: string,
  options: T,
  others: Record<string, string> = {},
) {
  const all = { ...options, help: { type: "boolean", short: "h" } } as const;
  try {
    return parseArgs({ args, options: all, allowPositionals: true });
  } catch (cause) {
    const { optionProblem } = await import("../base/similar.ts");
    const problem = optionProblem(cause, Object.keys(all));
    const [, given = ""] = /^Unknown option '([^']+)'/.exec(problem) ?? [];
    const [command = "sandkeep"] = /sandkeep [a-z]+/.exec(usage) ?? [];
    if (!Object.hasOwn(others, given)) throw new CliError(problem, `${command} --help lists the options`);
    throw new CliError(`Unknown option '${given}'`, others[given]);
  }
}

/** the one name that a command takes; `verb` says for what, such as "stop a sandbox" */
export function oneName(positionals: string[], verb: string, usage: string): string {
  const [name, ...rest] = positionals;
  if (name !== undefined && name !== "" && rest.length === 0) return name;
  throw misuse(`Cannot ${verb}: give one name`, usage);
}

/** at least one name */
export function someNames(positionals: string[], verb: string, usage: string): string[] {
  if (positionals.length > 0 && !positionals.includes("")) return positionals;
  throw misuse(`Cannot ${verb}: give at least one name`, usage);
}
