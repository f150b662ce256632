/** Reads the arguments of a command; an unknown one is an error with the command's usage. */

import { type ParseArgsConfig, parseArgs } from "node:util";
import { optionProblem } from "../base/option-problem.ts";
import { CliError } from "./errors.ts";

export { optionProblem };

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
