/**
 * Which changes are on the disk before they are acknowledged. Each says so where it is declared: `durable(…)`. The other
 * changes reach the disk with the next of these.
 */

const marked = new WeakSet<object>();

export function durable<F extends (...args: never[]) => Promise<unknown>>(change: F): F {
  marked.add(change);
  return change;
}

/** the store; its durable changes resolve after `flushed` */
export function flushing<S extends object>(store: S, flushed: () => Promise<void>): S {
  const changes = Object.entries(store).filter(([, method]) => marked.has(method));
  const durable = changes.map(([name, change]) => [
    name,
    async (...args: unknown[]) => {
      const result = await change(...args);
      await flushed();
      return result;
    },
  ]);
  return { ...store, ...Object.fromEntries(durable) };
}
