/**
 * Checks of parsed JSON in a few functions, for the formats of the egress process: zod takes 8 MB in every process that
 * loads it, and that process needs nothing else of it. A shape returns the value, without the fields that it does not
 * know, or throws a Mismatch.
 */

/** `path` names the value in errors, as in "settings.proxy.port" */
export type Shape<T> = (value: unknown, path: string) => T;

export class Mismatch extends Error {
  override readonly name = "Mismatch";

  constructor(path: string, expected: string) {
    super(`"${path}" is not ${expected}`);
  }
}

export const text: Shape<string> = (value, path) => {
  if (typeof value !== "string") throw new Mismatch(path, "text");
  return value;
};

export const flag: Shape<boolean> = (value, path) => {
  if (typeof value !== "boolean") throw new Mismatch(path, "true or false");
  return value;
};

export const number: Shape<number> = (value, path) => {
  if (typeof value !== "number" || !Number.isFinite(value)) throw new Mismatch(path, "a number");
  return value;
};

/** a whole number, exact in JavaScript */
export const whole: Shape<number> = (value, path) => {
  if (typeof value !== "number" || !Number.isSafeInteger(value)) throw new Mismatch(path, "a number");
  return value;
};

export const count: Shape<number> = (value, path) => {
  if (whole(value, path) < 0) throw new Mismatch(path, "a count");
  return whole(value, path);
};

export function oneOf<const T extends string>(words: readonly T[]): Shape<T> {
  return (value, path) => {
    const found = words.find((word) => word === value);
    if (found === undefined) throw new Mismatch(path, `one of ${words.join(", ")}`);
    return found;
  };
}

export function list<T>(of: Shape<T>): Shape<T[]> {
  return (value, path) => {
    if (!Array.isArray(value)) throw new Mismatch(path, "a list");
    return value.map((each, index) => of(each, below(path, index)));
  };
}

/** of a field that may be missing; object() leaves it out then */
export function optional<T>(shape: Shape<T>): Shape<T> {
  return otherwise(shape, undefined as T);
}

/** of a field with a value that it has where it is missing */
export function otherwise<T>(shape: Shape<T>, fallback: T): Shape<T> {
  return (value, path) => (value === undefined ? fallback : shape(value, path));
}

/** an object with these fields; others are left out */
export function object<T extends object>(fields: { [K in keyof T]-?: Shape<Exclude<T[K], undefined>> }): Shape<T> {
  const shapes = Object.entries<Shape<unknown>>(fields);
  return (value, path) => {
    const given = plain(value, path);
    const known: Record<string, unknown> = {};
    for (const [name, shape] of shapes) {
      const field = shape(Object.hasOwn(given, name) ? given[name] : undefined, below(path, name));
      if (field !== undefined) known[name] = field;
    }
    // Every field has passed the shape of its type.
    return known as T;
  };
}

/** the same, with all its other fields as they are */
export function looseObject<T extends object>(fields: Parameters<typeof object<T>>[0]): Shape<T> {
  const known = object<T>(fields);
  return (value, path) => ({ ...plain(value, path), ...known(value, path) });
}

/** an object with values of this shape under any names */
export function record<T>(of: Shape<T>): Shape<Record<string, T>> {
  return (value, path) =>
    Object.fromEntries(Object.entries(plain(value, path)).map(([name, each]) => [name, of(each, below(path, name))]));
}

/** A shape for each kind of a union, without the kind itself. */
export type KindShapes<T extends { kind: string }> = {
  [K in T["kind"]]: Shape<Omit<Extract<T, { kind: K }>, "kind">>;
};

/** an object whose field `kind` says which of the shapes it has; that field belongs to it */
export function byKind<T extends { kind: string }>(shapes: KindShapes<T>): Shape<T> {
  const known = new Map(Object.entries<Shape<object>>(shapes));
  return (value, path) => {
    const { kind } = plain(value, path);
    const shape = typeof kind === "string" ? known.get(kind) : undefined;
    if (!shape) throw new Mismatch(below(path, "kind"), `one of ${[...known.keys()].join(", ")}`);
    // The kind is that of the shape.
    return { kind, ...shape(value, path) } as T;
  };
}

/** the value, or undefined if it has another shape */
export function fitting<T>(shape: Shape<T>, value: unknown): T | undefined {
  try {
    return shape(value, "");
  } catch (error) {
    if (error instanceof Mismatch) return undefined;
    throw error;
  }
}

function plain(value: unknown, path: string): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Mismatch(path, "an object");
  return value as Record<string, unknown>; // it is one
}

function below(path: string, name: string | number): string {
  return path === "" ? `${name}` : `${path}.${name}`;
}
