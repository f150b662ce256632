/**
 * The daemon's log: a line of stderr for each event, as log-line.ts shows them, without the secrets that redaction.ts finds.
 *
 * Lines are written by this thread: a worker would begin later than the first lines, and lose the last ones of a crash.
 */

import { type Logger, pino, stdTimeFunctions } from "pino";
import { messageOf } from "../core/model/errors.ts";
import { type logFormats, type logLevels, pretty } from "./log-line.ts";
import type { Redaction } from "./redaction.ts";

export type Log = Pick<Logger, "debug" | "info" | "warn" | "error" | "isLevelEnabled">;

export interface LogOptions {
  format: (typeof logFormats)[number];
  level: (typeof logLevels)[number];
  redaction: Pick<Redaction, "line">;
  /** fields of the current context, such as the request */
  scope: () => object;
  /** secrets of the current context, such as the key of the request; default none */
  secrets?: () => readonly string[];
  write: (line: string) => void;
}

export function createLog({ format, level, redaction, scope, secrets = () => [], write }: LogOptions): Log {
  const show = format === "pretty" ? (line: string) => write(pretty(line)) : write;
  return pino(
    {
      level,
      base: null,
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      // A copy, as pino writes into it.
      mixin: () => ({ ...scope() }),
      serializers: { err: printError },
    },
    { write: (line: string) => show(redaction.line(line, secrets())) },
  );
}

/** only fields that are known to be harmless: errors of libraries carry connections and rows */
function printError(error: unknown): object {
  if (!(error instanceof Error)) return { message: messageOf(error) };
  const { name, message, stack, cause } = error;
  const code = "code" in error ? { code: String(error.code) } : {};
  return { type: name, message, ...code, stack, ...(cause !== undefined && { cause: messageOf(cause) }) };
}
