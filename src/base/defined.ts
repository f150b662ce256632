/** Leaves out the members of an object that are undefined, so that a change keeps what it does not mention. */

type Defined<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

export function definedOf<T extends object>(members: T): Defined<T> {
  // Each member keeps its type or is left out.
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as Defined<T>;
}
