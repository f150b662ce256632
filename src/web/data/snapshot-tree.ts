/** Snapshots in the order of their families: each after its parent, with the lines that join them. */

export interface Member {
  id: string;
  parentId: string | null;
  createdAt: number;
}

export interface Placed<T> {
  item: T;
  /** for each generation above it, whether a line passes this row on its way to a later one */
  passing: boolean[];
  isLast: boolean;
  depth: number;
}

/** deepest generation that is drawn further to the right */
const deepest = 12;

/** members whose parent is not among them begin a family; the newest families and members come first */
export function placed<T extends Member>(members: readonly T[]): Placed<T>[] {
  const present = new Set(members.map(({ id }) => id));
  const children = Map.groupBy(members, ({ parentId }) => (parentId !== null && present.has(parentId) ? parentId : ""));
  const rows: Placed<T>[] = [];
  // Not by recursion: a family may have thousands of generations.
  const waiting: Placed<T>[] = [];
  const push = (parent: string, passing: boolean[], depth: number) => {
    const family = (children.get(parent) ?? []).toSorted((a, b) => a.createdAt - b.createdAt);
    for (const [at, item] of family.entries()) waiting.push({ item, passing, isLast: at === 0, depth });
  };
  push("", [], 0);
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    rows.push(next);
    const { item, passing, isLast, depth } = next;
    const below = depth === 0 || depth > deepest ? passing : [...passing, !isLast];
    push(item.id, below, depth + 1);
  }
  return rows;
}
