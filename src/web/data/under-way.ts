/** What this page does to things and the daemon has not answered yet, so that it shows at once. */

import { signal } from "@preact/signals";

/** by the name or id of a thing, what is done to it, such as "stopping" */
export const underWay = signal<ReadonlyMap<string, string>>(new Map());

export async function doing<T>(thing: string, what: string, work: () => Promise<T>): Promise<T> {
  underWay.value = new Map(underWay.value).set(thing, what);
  try {
    return await work();
  } finally {
    const rest = new Map(underWay.value);
    // A later act on the same thing has its own word.
    if (rest.get(thing) === what) rest.delete(thing);
    underWay.value = rest;
  }
}
