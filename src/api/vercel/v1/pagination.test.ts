/** Timestamps as cursors: a number decodes to the place that it was made from, through every client. */

import { describe, expect, test } from "vitest";
import { boundOf, pagination, timestampOf } from "./pagination.ts";

const at = 1_803_711_655_015;

describe("a place", () => {
  test.each([0, 1, 2, 3, 100, 1023, 2046 - 1])("above %i items of its millisecond decodes to itself", (below) => {
    const timestamp = timestampOf({ at, below });
    // As JSON, and as the text of a query.
    expect(boundOf(JSON.parse(JSON.stringify(timestamp)))).toEqual({ at, below });
    expect(boundOf(Number(new URLSearchParams({ until: String(timestamp) }).get("until")))).toEqual({ at, below });
    expect(String(timestamp)).toMatch(/^\d{13}\.\d{1,12}$/);
  });

  test.each([0, 1_000_000_000_000, at, 2_300_000_000_000, 4_390_000_000_000])(
    "is exact in the millisecond %i",
    (early) => {
      const places = [0, 1, 2, 3, 2045].map((below) => ({ at: early, below }));
      expect(places.map((place) => boundOf(timestampOf(place)))).toEqual(places);
    },
  );

  test("lies between the time of its millisecond and the next, in the order of places", () => {
    const numbers = [0, 1, 2, 2045].map((below) => timestampOf({ at, below }));
    expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
    expect(numbers.map(Math.floor)).toEqual(numbers.map(() => at));
    expect(numbers.every((number) => number > at && number < at + 1)).toBe(true);
  });

  test("that no number can express is refused with a message", () => {
    expect(() => timestampOf({ at, below: 2047 })).toThrow(
      `Cannot name the next page: more than 2046 were created in the millisecond ${at}`,
    );
  });
});

test("a whole number is a time", () => {
  expect(boundOf(at)).toEqual({ at });
  expect(boundOf(0)).toEqual({ at: 0 });
  expect(boundOf(undefined)).toBeUndefined();
});

test("a fraction that is not a place is a time within its millisecond", () => {
  expect(boundOf(at + 0.3)).toEqual({ at, isWithin: true });
});

test("a page gives its count, the total, and its neighbours", () => {
  expect(pagination({ items: [1, 2], total: 7 })).toEqual({ count: 2, next: null, prev: null, total: 7 });
  const [older, newer] = [
    { at, below: 0 },
    { at: at + 9, below: 1 },
  ];
  expect(pagination({ items: [1, 2], total: 7, older, newer })).toEqual({
    count: 2,
    next: at + 1 / 2048,
    prev: at + 9 + 2 / 2048,
    total: 7,
  });
});
