/** Reads the arguments of a command; an unknown one is an error with the command's usage. */

import { type ParseArgsConfig, parseArgs } from "node:util";
import { CliError } from "./errors.ts";

type Options = NonNullable<ParseArgsConfig["options"]>;

/** Options and operands of a command line; every command also has -h and --help. */
export function readArgs<const T extends Options>(args: string[], usage: string, options: T) {
  try {
    const all = { ...options, help: { type: "boolean", short: "h" } } as const;
    return parseArgs({ args, options: all, allowPositionals: true });
  } catch (cause) {
    // Node's message goes on with advice about values that begin with a dash.
    const [sentence] = (cause instanceof Error ? cause.message : String(cause)).split(". ");
    throw new CliError(`${sentence}\n\n${usage.trimEnd()}`);
  }
}
