/** Tests of what commands print on a terminal. */

import { expect, test } from "vitest";
import { redrawn } from "./output.ts";

test.each([
  ["a terminal of 20 columns", 20, "Pulling 12.5 MB of "],
  ["one without a known width", undefined, "Pulling 12.5 MB of 300 MB"],
  ["one that says it has none", 0, ""],
])("progress stays on one line of %s", (_, columns, shown) => {
  expect(redrawn("Pulling 12.5 MB of 300 MB", columns)).toBe(`\r\x1b[K${shown}`);
});
