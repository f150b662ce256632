/** Reads the arguments of a command; an unknown one is an error with a hint. */

import type { ParseArgsConfig } from "node:util";
import { optionProblem } from "../base/similar.ts";
import { CliError } from "./errors.ts";

export { optionProblem };

/** Node's own. An import would compute the values of all getters of node:util, a fifth of the time of a short command. */
export const { parseArgs } = process.getBuiltinModule("node:util");

type Options = NonNullable<ParseArgsConfig["options"]>;

/**
 * Options and operands of a command line; every command also has -h and --help. `others`: options of other tools, with
 * their dashes, and what to write instead of them.
 */
export function readArgs<const T extends Options>(
  args: string[],
  usage: string,
  options: T,
  others: Record<string, string> = {},
) {
  const all = { ...options, help: { type: "boolean", short: "h" } } as const;
  try {
    return parseArgs({ args, options: all, allowPositionals: true });
  } catch (cause) {
    const problem = optionProblem(cause, Object.keys(all));
    const [, given = ""] = /^Unknown option '([^']+)'/.exec(problem) ?? [];
    const [command = "sandkeep"] = /sandkeep [a-z]+/.exec(usage) ?? [];
    if (!Object.hasOwn(others, given)) throw new CliError(problem, `${command} --help lists the options`);
    throw new CliError(`Unknown option '${given}'`, others[given]);
  }
}
