/** Refusals of `sandkeep run` in the words of the command line. */

import { CliError, Refusal } from "../errors.ts";
import { shellWord } from "../print/output.ts";
import { durationInWords } from "../units.ts";

/** options by the members that the API calls them */
const optionsOf = new Map([
  ["name", "--name"],
  ["env", "--env"],
  ["vcpus", "--cpus"],
  ["memory", "--memory"],
  ["timeout", "--timeout"],
  ["mounts", "--drive"],
  ["ports", "--port"],
]);

/**
 * A refusal with the names and units of the options, in place of the API's. `written`: the words of a command line
 * without "--", whose first one was taken for an image.
 */
export function inOwnWords(error: unknown, written: string[] = []): unknown {
  if (!(error instanceof Refusal)) return error;
  const message = error.message
    .replace(/`(?:sandbox\.)?(\w+)[^`]*`/, (whole, field: string) => optionsOf.get(field) ?? whole)
    .replace(/(--memory should be .= \d+)/, "$1m")
    .replace(/(?<=--timeout should be .= )(\d+)(?: ms)?/, (_, length: string) => durationInWords(Number(length)));
  const [image = ""] = written;
  const isProgram = /^[\w.+-]+$/.test(image) && message.includes(`image "${image}" is not here`);
  const hint = `to run "${image}" in the default image: sandkeep run -- ${written.map(shellWord).join(" ")}`;
  const [, taken] = (error.code === "name_taken" && /Cannot name a sandbox "([^"]+)"/.exec(message)) || [];
  if (taken !== undefined)
    return new CliError(
      message,
      `sandkeep exec ${shellWord(taken)} runs a program in it; another --name makes a new one`,
    );
  return new CliError(message, isProgram ? hint : undefined);
}
