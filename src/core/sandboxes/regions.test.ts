/** Tests of regions that contradict each other, in either order. */

import { expect, test } from "vitest";
import { requireElsewhere } from "./regions.ts";

const now = { region: "iad1", failoverRegions: ["sfo1"] };
const words = "Invalid request: `failoverRegions` should NOT contain the sandbox's own region.";

test.each([
  [{ region: "sfo1" }],
  [{ failoverRegions: ["fra1", "iad1"] }],
  [{ region: "fra1", failoverRegions: ["fra1"] }],
])("%j is refused", (changes) => {
  expect(() => requireElsewhere(now, changes)).toThrow(words);
});

test("a new sandbox must meet the same rule", () => {
  expect(() => requireElsewhere({ region: "iad1", failoverRegions: ["iad1"] })).toThrow(words);
  requireElsewhere(now);
});

test.each([[{}], [{ region: "fra1" }], [{ failoverRegions: [] }], [{ region: "sfo1", failoverRegions: ["iad1"] }]])(
  "%j is fine",
  (changes) => requireElsewhere(now, changes),
);
