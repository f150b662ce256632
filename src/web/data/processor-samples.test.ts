/** The line of busy processors: from the daemon's samples, then from each answer, of one session. */

import { expect, test } from "vitest";
import { sparkOf, sparkSlots, withSamples } from "./processor-samples.ts";

const now = 10_000_000;
const told = (session: string, processors: number, samples: { at: number; processors: number }[] | null = null) => ({
  session,
  load: { processors },
  samples,
});

test("the first answer fills ten minutes, later ones add to it, and another session begins anew", () => {
  const old = { at: now - 700_000, processors: 9 };
  const early = { at: now - 60_000, processors: 1 };
  const first = withSamples(undefined, told("one", 2, [old, early]), now);
  expect(first).toEqual([early, { at: now, processors: 2 }]);
  const before = { session: "one", samples: first };
  expect(withSamples(before, told("one", 3), now + 1000)).toEqual(first);
  expect(withSamples(before, told("one", 3), now + 5000).at(-1)).toEqual({ at: now + 5000, processors: 3 });
  expect(withSamples(before, told("two", 4), now + 5000)).toEqual([{ at: now + 5000, processors: 4 }]);
  expect(withSamples(before, { ...told("one", 0), load: null }, now + 5000)).toEqual(first);
});

test("a line has a value for each ten seconds, and the later of two samples says what was between them", () => {
  expect(sparkOf([], now)).toEqual([]);
  const samples = [
    { at: now - 40_000, processors: 1 },
    { at: now - 10_000, processors: 2 },
    { at: now, processors: 3 },
  ];
  expect(sparkOf(samples, now)).toEqual([1, 2, 2, 2, 3]);
  expect(sparkOf([{ at: now - 599_000, processors: 1 }, ...samples], now)).toHaveLength(sparkSlots);
});
