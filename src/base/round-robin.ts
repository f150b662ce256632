/** Work on many things of which a few are done at a time, so that each has its turn and none waits for ever. */

/** what becomes of a thing that is looked at: its turn has come, it is left where it is, or it is forgotten */
export type TurnState = "due" | "left" | "over";

/** at most so many that are due, those first whose last turn is longest ago; the order of the map says so */
export function nextInTurn<K, V>(all: Map<K, V>, most: number, stateOf: (value: V) => TurnState): [key: K, value: V][] {
  const due: [K, V][] = [];
  for (const [key, value] of all) {
    if (due.length === most) break;
    const state = stateOf(value);
    if (state === "due") due.push([key, value]);
    else if (state === "over") all.delete(key);
  }
  for (const [key, value] of due) {
    all.delete(key);
    all.set(key, value);
  }
  return due;
}
