/** The files of a build's context that control the build: the Dockerfile and the ignore file. */

import { ignoredBy } from "../../base/path-patterns.ts";
import { messageOf, SandkeepError } from "../model/errors.ts";
import type { BuildContext } from "../ports/image-builds.ts";

/** most comparisons of ignore rules with paths: seconds of the daemon's time */
const mostSteps = 1e8;

/** returns the Dockerfile's text, and hides ignored files in the context. `apart`: hides the Dockerfile too */
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
