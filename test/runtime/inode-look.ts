/** The inode numbers of a sandbox's files, from `find`: paths with the same number must be one file, and keep it. */

export interface Seen {
  /** device and inode */
  number: string;
  type: string;
  links: number;
  /** values that change when the file does */
  facts: string;
}

/** prints everything below a path in the format of `parseLook` */
export function lookCommand(where: string): string {
  return `find ${where} -xdev -printf '%D:%i|%y|%n|%s %T@ %m %U:%G|%p\\n'`;
}

/** by path */
export function parseLook(stdout: string): Map<string, Seen> {
  const seen = new Map<string, Seen>();
  for (const line of stdout.trimEnd().split("\n")) {
    const [number = "", type = "", links = "", facts = "", ...path] = line.split("|");
    seen.set(path.join("|"), { number, type, links: Number(links), facts });
  }
  return seen;
}

/** paths that share a number, though they are not one file: more paths than links, or different facts */
export function collisionsIn(seen: Map<string, Seen>): string[][] {
  const byNumber = Map.groupBy(seen, ([, { number }]) => number);
  const collisions = [...byNumber.values()].filter(
    (group) =>
      group.length > 1 &&
      group.some(
        ([, one]) => one.type === "d" || one.links < group.length || one.facts !== (group[0]?.[1].facts ?? ""),
      ),
  );
  return collisions.map((group) => group.map(([path]) => path));
}

/**
 * Untouched files whose number has changed. The device number changes with each mount. In a root with directories of
 * the host below, the number of a directory may change too.
 */
export function changedNumbers(before: Map<string, Seen>, after: Map<string, Seen>): string[] {
  const changed: string[] = [];
  for (const [path, { number, type, facts }] of before) {
    const now = after.get(path);
    if (type === "d" || !now || now.facts !== facts) continue;
    if (number.split(":")[1] !== now.number.split(":")[1]) changed.push(`${path}: ${number} became ${now.number}`);
  }
  return changed;
}
