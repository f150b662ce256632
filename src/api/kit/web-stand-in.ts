/**
 * Classes that stand in for those of the web, such as Request. They do themselves what most requests need. For the rest,
 * each instance makes a real one when it is first asked for: that takes longer than all other work of a short request.
 */

/**
 * Gives a class every member of the web's class that it lacks, and makes its instances pass `instanceof`. `real` returns
 * the real instance behind one of ours, always the same.
 */
export function standIn<T extends object, Own extends object>(
  own: { prototype: Own },
  web: { prototype: T },
  real: (own: Own) => T,
): void {
  for (const name of Reflect.ownKeys(web.prototype)) {
    if (Object.hasOwn(own.prototype, name)) continue;
    Object.defineProperty(own.prototype, name, {
      configurable: true,
      get(this: Own) {
        const instance = real(this);
        const member: unknown = Reflect.get(instance, name, instance);
        return typeof member === "function" ? member.bind(instance) : member;
      },
    });
  }
  Object.setPrototypeOf(own.prototype, web.prototype);
}
