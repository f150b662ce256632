/** A service whose methods do something more, such as a check. Each is made at its first use: requests call them all the time. */

type Method = (...args: unknown[]) => unknown;

/** `wrap` gets a method bound to the service, and returns the one that callers get */
export function wrappedService<T extends object>(service: T, wrap: (name: string, method: Method) => Method): T {
  const known = new Map<string | symbol, { method: unknown; wrapped: Method }>();
  return new Proxy(service, {
    get(target, name) {
      const method = Reflect.get(target, name, target);
      if (typeof method !== "function") return method;
      const made = known.get(name);
      if (made?.method === method) return made.wrapped;
      const bound: Method = (...args) => method.apply(target, args);
      const wrapped = typeof name === "string" ? wrap(name, bound) : bound;
      known.set(name, { method, wrapped });
      return wrapped;
    },
  });
}
