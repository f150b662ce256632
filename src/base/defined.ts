/** The members of an object that are there: a change that says nothing of a member leaves it as it is. */

export function definedOf<T extends object>(members: T): Partial<T> {
  // A member is left out or stays what it is.
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as Partial<T>;
}
