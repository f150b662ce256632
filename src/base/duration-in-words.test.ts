/** Durations for people. */

import { expect, test } from "vitest";
import { durationInWords } from "./duration-in-words.ts";

test("a duration has every unit that it needs, and loses nothing", () => {
  const found = [0, 230, 1500, 90_000, 300_000, 5_400_000, 86_400_000, 90_061_000].map(durationInWords);
  expect(found).toEqual(["0 ms", "230 ms", "1500 ms", "1m 30s", "5m", "1h 30m", "1d", "1d 1h 1m 1s"]);
});
