/** What a command on sandboxes gets from the program around it, and how it reads its names. */

import type { KeyPlaces } from "./client/connection.ts";
import { misuse } from "./errors.ts";

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
