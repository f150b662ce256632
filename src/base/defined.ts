/** Leaves out the members of an object that are undefined, so that a change keeps what it does not mention. */

export function definedOf<T extends object>(members: T): Partial<T> {
  // Each member keeps its type or is left out.
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as Partial<T>;
}
