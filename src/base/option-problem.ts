/** Turns an error of Node's parseArgs into a sentence, with the option that was probably meant. */

import { didYouMean } from "./similar.ts";

/** `known`: the options of the command, without their dashes */
export function optionProblem(error: unknown, known: Iterable<string>): string {
  const message = error instanceof Error ? error.message : String(error);
  const [unknown, name = ""] = /^Unknown option '([^']+)'/.exec(message) ?? [];
  // Node's messages go on with advice about arguments that begin with a dash.
  if (unknown === undefined) return message.split(". ")[0] ?? message;
  const meant = didYouMean(
    name,
    [...known].map((option) => `--${option}`),
  );
  return meant === "" ? unknown : `${unknown}. ${meant}`;
}
