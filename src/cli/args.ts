/** Reads the arguments of a command; an unknown one is an error with the command's usage. */

import type { ParseArgsConfig } from "node:util";
import { optionProblem } from "../base/similar.ts";
import { CliError } from "./errors.ts";

export { optionProblem };

/** Node's own. An import would compute the values of all getters of node:util, a fifth of the time of a short command. */
export const { parseArgs } = process.getBuiltinModule("node:util");

type Options = NonNullable<ParseArgsConfig["options"]>;

/** Options and operands of a command line; every command also has -h and --help. */
export function readArgs<const T extends Options>(args: string[], usage: string, options: T) {
  const all = { ...options, help: { type: "boolean", short: "h" } } as const;
  try {
    return parseArgs({ args, options: all, allowPositionals: true });
  } catch (cause) {
    throw new CliError(`${optionProblem(cause, Object.keys(all))}\n\n${usage.trimEnd()}`);
  }
}
