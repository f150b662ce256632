/** A function of a text that remembers its latest results: most requests repeat the texts of earlier ones. */

import { keepLast } from "./bounded-map.ts";

/** most texts that are remembered */
const mostTexts = 1000;

/** `find` must depend on nothing but its text. Callers share a result. Texts above `longest` are not remembered */
export function remembered<T>(find: (text: string) => T, longest = 256): (text: string) => T {
  const known = new Map<string, { result: T }>();
  return (text) => {
    const there = known.get(text);
    if (there) return there.result;
    const result = find(text);
    if (text.length <= longest) {
      known.set(text, { result });
      keepLast(known, mostTexts);
    }
    return result;
  };
}
