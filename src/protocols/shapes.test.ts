/** Shapes of parsed JSON: what fits is returned without unknown fields, and an error names the field that does not fit. */

import { expect, test } from "vitest";
import {
  byKind,
  count,
  fitting,
  flag,
  list,
  looseObject,
  number,
  object,
  oneOf,
  optional,
  otherwise,
  record,
  type Shape,
  text,
  whole,
} from "./shapes.ts";

test.each<[Shape<unknown>, unknown[], unknown[]]>([
  [text, ["", "a"], [1, null, undefined, {}, ["a"]]],
  [flag, [true, false], [0, 1, "true", null, undefined]],
  [number, [-1.5, 0], ["1", Number.NaN, Number.POSITIVE_INFINITY, null, undefined]],
  [whole, [-1, 0, 2 ** 53 - 1], [0.5, 2 ** 53, "1", null, undefined]],
  [count, [0, 1], [-1, 0.5, "1", null, undefined]],
  [oneOf(["a", "b"]), ["a", "b"], ["c", 1, ["a"], undefined]],
  [list(whole), [[], [1, 2]], [[1, "2"], {}, "12", null, undefined]],
  [record(whole), [{}, { a: 1 }], [{ a: "1" }, [1], null, "a", undefined]],
  [optional(whole), [1, undefined], ["1", null]],
])("%o", (shape, good, bad) => {
  for (const value of good) expect(shape(value, "it")).toEqual(value);
  for (const value of bad) expect(() => shape(value, "it")).toThrow(/^"it(\.\w+)?" is not /);
  for (const value of bad) expect(fitting(shape, value)).toBeUndefined();
});

const inner = object<{ a: number; b?: string; c: boolean }>({
  a: whole,
  b: optional(text),
  c: otherwise(flag, false),
});

test("an object has its known fields, and those that are missing and have a value", () => {
  expect(inner({ a: 1, later: 2 }, "")).toStrictEqual({ a: 1, c: false });
  expect(inner({ a: 1, b: "x", c: true }, "")).toStrictEqual({ a: 1, b: "x", c: true });
  for (const value of [[], null, "a", 1, undefined]) expect(fitting(inner, value)).toBeUndefined();
});

test("a field counts only if the value itself has it", () => {
  expect(fitting(inner, Object.create({ a: 1 }))).toBeUndefined();
  expect(inner(JSON.parse('{"a":1,"__proto__":{"b":"x"}}'), "")).toStrictEqual({ a: 1, c: false });
  const loose = looseObject<{ a: number }>({ a: whole })(JSON.parse('{"a":1,"__proto__":{"b":"x"},"d":2}'), "");
  expect(loose).toMatchObject({ a: 1, d: 2 });
  expect(Object.getPrototypeOf(loose)).toBe(Object.prototype);
  expect(fitting(record(inner), JSON.parse('{"__proto__":{"a":"x"}}'))).toBeUndefined();
});

test("the kind chooses the shape", () => {
  type Message = { kind: "one"; a: number } | { kind: "two" };
  const shape = byKind<Message>({ one: object({ a: whole }), two: object({}) });
  expect(shape({ kind: "one", a: 1, b: 2 }, "")).toStrictEqual({ kind: "one", a: 1 });
  expect(shape({ kind: "two", a: 1 }, "")).toStrictEqual({ kind: "two" });
  for (const kind of ["three", "toString", "__proto__", 1, ["one"], undefined])
    expect(() => shape({ kind, a: 1 }, "")).toThrow('"kind" is not one of one, two');
});

test("an error names the place of what does not fit", () => {
  const shape = object<{ list: { a: number; c: boolean }[] }>({ list: list(inner) });
  expect(() => shape({ list: [{ a: 1 }, { a: "1" }] }, "")).toThrow('"list.1.a" is not a number');
});
