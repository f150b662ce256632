/** Work on many things of which a few are done at a time, so that each has its turn and none waits for ever. */

/** what becomes of a thing that is looked at: its turn has come, it is left where it is, or it is forgotten */
export type Lot = "due" | "left" | "over";

/** at most so many that are due, those first whose last turn is longest ago; the order of the map says so */
export function nextInTurn<K, V>(all: Map<K, V>, most: number, lotOf: (value: V) => Lot): [key: K, value: V][] {
  const due: [K, V][] = [];
  for (const [key, value] of all) {
    if (due.length === most) break;
    const lot = lotOf(value);
    if (lot === "due") due.push([key, value]);
    else if (lot === "over") all.delete(key);
  }
  for (const [key, value] of due) {
    all.delete(key);
    all.set(key, value);
  }
  return due;
}
