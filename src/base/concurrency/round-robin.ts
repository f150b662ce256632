/** Takes turns among many items, a few at a time, so that none starves. */

/** what to do with an item: use its turn, skip it for now, or remove it */
export type TurnState = "due" | "left" | "over";

/** at most `most` items that are due, least recently used first; the order of the map keeps track of that */
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
