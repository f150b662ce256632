/**
 * Copies messages of the launcher, netd and the egress process into the daemon's log. They outlive daemons, so they write to
 * a file, one line for each event, of which this reads the new lines while a daemon runs. A line is a sentence, or JSON:
 *
 *   {"process":"egress","sentence":"Cannot go on …","stack":"Error: …"}
 *   {"process":"netd","level":"warn","sentence":"The network process (process 7) was ended by signal 9; …"}
 *
 * Without a level it is an error.
 */

import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { type PeriodicTask, runEvery } from "./periodic-task.ts";

/** called with an error, and with the machine (by its session) or the process that it is about */
export type LogError = (error: unknown, about?: { session?: string; process?: string }) => void;

/** called with what the operator should know, and what it is about */
export type Warn = (sentence: string, about?: { session?: string; process?: string }) => void;

interface LauncherLine {
  /** which of them, where it says so */
  process?: string;
  isWarning?: boolean;
  sentence: string;
  stack?: string;
}

/** how often the file is read, in ms, how much of it at once, and how many lines of that are passed on */
const pause = 500;
const mostBytes = 64 << 10;
const mostLines = 20;

export class LauncherLog {
  readonly #path: string;
  readonly #logError: LogError;
  readonly #warn: Warn;
  readonly #task: PeriodicTask;
  /** bytes of the file that are read */
  #read: number;

  /** begins with what is written from now on */
  constructor(path: string, { logError, warn }: { logError: LogError; warn: Warn }) {
    this.#path = path;
    this.#logError = logError;
    this.#warn = warn;
    this.#read = this.#open((fd) => fstatSync(fd).size) ?? 0;
    this.#task = runEvery(pause, () => this.readNew(), logError);
  }

  /** passes on the lines that are there by now */
  readNew(): void {
    const text = this.#open((fd) => {
      const size = fstatSync(fd).size;
      if (size <= this.#read) {
        // Smaller: it was truncated.
        this.#read = size;
        return undefined;
      }
      // Of too many lines only the last ones, which say how it ended.
      const from = Math.max(this.#read, size - mostBytes);
      const bytes = Buffer.alloc(size - from);
      const length = readSync(fd, bytes, 0, bytes.length, from);
      const whole = bytes.subarray(0, bytes.subarray(0, length).lastIndexOf("\n") + 1);
      if (whole.length > 0) this.#read = from + whole.length;
      return whole.toString("utf8");
    });
    const lines = (text ?? "").split("\n").filter((line) => line.trim() !== "");
    for (const line of lines.slice(0, mostLines)) this.#tell(parseLine(line));
    const left = lines.length - mostLines;
    if (left > 0) this.#tell({ sentence: `${left} more lines are in "${this.#path}"` });
  }

  close(): void {
    this.#task.close();
    this.readNew();
  }

  #tell({ sentence, stack, isWarning, process = "launcher" }: LauncherLine): void {
    if (isWarning) {
      this.#warn(sentence, { process });
      return;
    }
    const error = new Error(sentence);
    if (stack !== undefined) error.stack = stack;
    this.#logError(error, { process });
  }

  #open<T>(use: (fd: number) => T): T | undefined {
    let fd: number;
    try {
      fd = openSync(this.#path, "r");
    } catch {
      // Missing before the first launcher starts, and after its folder was deleted.
      return undefined;
    }
    try {
      return use(fd);
    } finally {
      closeSync(fd);
    }
  }
}

function parseLine(line: string): LauncherLine {
  if (line.startsWith("{")) {
    try {
      const { process, level, sentence, stack } = JSON.parse(line) as Record<string, unknown>; // checked below
      if (typeof sentence === "string") {
        const more = { ...(typeof process === "string" && { process }), ...(typeof stack === "string" && { stack }) };
        return { sentence, isWarning: level === "warn", ...more };
      }
    } catch {
      // A line that was cut off is shown as it is.
    }
  }
  return { sentence: line };
}
