/** The files of a build's context that say how to build: the Dockerfile, and the rules for what is left out. */

import { ignoredBy } from "../../base/path-patterns.ts";
import { messageOf, SandkeepError } from "../model/errors.ts";
import type { BuildContext } from "../ports/image-builds.ts";

/** comparisons of the ignore file's rules with paths: seconds of the daemon's time */
const mostSteps = 1e8;

/** the Dockerfile; the rest of the context is then without what its ignore file names. `apart`: also without the Dockerfile */
export async function dockerfileIn(context: BuildContext, path: string, { apart = false } = {}): Promise<string> {
  const text = await context.text(path);
  if (text === undefined) {
    throw new SandkeepError("invalid", `Cannot build the image: there is no file "${path}" in its context`);
  }
  const rules = (await context.text(`${path}.dockerignore`)) ?? (await context.text(".dockerignore")) ?? "";
  try {
    const ignored = ignoredBy(rules, mostSteps);
    context.ignore((each) => (apart && each === path) || ignored(each));
  } catch (cause) {
    throw new SandkeepError("invalid", `Cannot build the image: in its ignore file, ${messageOf(cause)}`, { cause });
  }
  return text;
}
