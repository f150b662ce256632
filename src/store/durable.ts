/**
 * Which changes are on the disk before they are acknowledged. Each says so where it is declared: `durable(…)`. The other
 * changes reach the disk with the next of these.
 */

type Change = (...args: never[]) => Promise<unknown>;

/** each with whether a call of it has to be on the disk */
const marked = new WeakMap<object, (...args: unknown[]) => boolean>();

/** `when` says which calls; default all */
export function durable<F extends Change>(change: F, when: (...args: Parameters<F>) => boolean = () => true): F {
  marked.set(change, when as (...args: unknown[]) => boolean); // called with the arguments of the change
  return change;
}

/** the store; its durable changes resolve after `flushed` */
export function flushing<S extends object>(store: S, flushed: () => Promise<void>): S {
  const durable = Object.entries(store).flatMap(([name, change]) => {
    const when = marked.get(change);
    const flushedChange = async (...args: unknown[]) => {
      const result = await change(...args);
      if (when?.(...args)) await flushed();
      return result;
    };
    return when ? [[name, flushedChange]] : [];
  });
  return { ...store, ...Object.fromEntries(durable) };
}
