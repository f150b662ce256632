/** Suggests known names that are similar to an unknown one, also to an option that Node's parseArgs refuses. */

/** 'Did you mean "serve"?' with the most similar of the known names; nothing where none is similar */
export function didYouMean(name: string, known: Iterable<string>): string {
  const nearest = nearestOf(name, known);
  return nearest === undefined ? "" : `Did you mean "${nearest}"?`;
}

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

/** the most similar name, if at most a third of it differs */
export function nearestOf(name: string, known: Iterable<string>): string | undefined {
  const byDistance = [...known]
    .map((each) => ({ each, distance: distanceOf(name.toLowerCase(), each.toLowerCase()) }))
    .filter(({ each, distance }) => distance <= Math.max(1, Math.floor(each.length / 3)))
    .sort((one, other) => one.distance - other.distance);
  return byDistance[0]?.each;
}

/** how many characters must be added, left out, replaced or swapped with their neighbour to make one text of the other */
function distanceOf(one: string, other: string): number {
  let [beforeLast, last] = [[] as number[], [...Array(other.length + 1).keys()]];
  for (let row = 1; row <= one.length; row++) {
    const next = [row];
    for (let column = 1; column <= other.length; column++) {
      const isSame = one[row - 1] === other[column - 1];
      const isSwapped = one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1];
      next.push(
        Math.min(
          (last[column] ?? 0) + 1,
          (next[column - 1] ?? 0) + 1,
          (last[column - 1] ?? 0) + (isSame ? 0 : 1),
          isSwapped ? (beforeLast[column - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
        ),
      );
    }
    [beforeLast, last] = [last, next];
  }
  return last[other.length] ?? 0;
}
