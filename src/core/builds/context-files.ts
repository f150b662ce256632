/** The files of a build's context that control the build: the Dockerfile and the ignore file. */

import { type Ignored, ignoredBy } from "../../base/files/path-patterns.ts";
import { messageOf, SandkeepError } from "../model/errors.ts";
import type { BuildContext } from "../ports/image-builds.ts";

/** comparisons of the ignore file's rules with paths: they hold up the daemon meanwhile */
const mostSteps = 4e7;

/** returns the Dockerfile's text, and hides ignored files in the context. `apart`: hides the Dockerfile too */
export async function dockerfileIn(context: BuildContext, path: string, { apart = false } = {}): Promise<string> {
  const text = await context.text(path);
  if (text === undefined) {
    throw new SandkeepError("invalid", `Cannot build the image: there is no file "${path}" in its context`);
  }
  const rules = (await context.text(`${path}.dockerignore`)) ?? (await context.text(".dockerignore")) ?? "";
  try {
    const ignored = ignoredBy(rules, mostSteps);
    context.ignore((each) => (apart && each === path) || within(ignored, each));
  } catch (cause) {
    throw new SandkeepError("invalid", `Cannot build the image: in its ignore file, ${messageOf(cause)}`, { cause });
  }
  return text;
}

/** paths are compared while the build runs, and only their number can be wrong then */
function within(ignored: Ignored, path: string): boolean {
  try {
    return ignored(path);
  } catch (cause) {
    throw new SandkeepError("limit", `Cannot apply the ignore file: ${messageOf(cause)}`, { cause });
  }
}
