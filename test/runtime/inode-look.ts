/** The numbers of the files in a sandbox, as `find` shows them: files that share one must be one file, and keep it. */

export interface Seen {
  /** device and inode */
  number: string;
  type: string;
  links: number;
  /** what changes when the file does */
  facts: string;
}

/** prints what `parseLook` reads, of all that is below a place */
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

/** paths that have one number, though they are not names of one file: more than it has links, or other facts */
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
 * files that nobody touched and that have another number than before. The device is the mount's and changes with it; and
 * so does, in a root that goes on in directories of the host, the number of a directory
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
