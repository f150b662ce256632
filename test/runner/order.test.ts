/** Tests of the order of test files. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { TestSpecification, Vitest } from "vitest/node";
import { root } from "../harness/harness.ts";
import { LongestFirst, longest } from "./order.ts";

test("every file of the list exists, once", () => {
  expect(longest.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  expect(new Set(longest).size).toBe(longest.length);
});

test("files of the list come first, the longest of them before the others", async () => {
  const [first = "", second = ""] = longest;
  const project = { name: "", config: { isolate: true, sequence: { groupOrder: 0 } } };
  const specification = (path: string) => ({ moduleId: join(root, path), project }) as TestSpecification;
  // What the sequencer uses of a run of Vitest.
  const run = { config: { root }, cache: { getTestSpecificationResult: () => undefined } } as unknown as Vitest;
  const files = ["src/main.test.ts", second, "test/house/vendors.test.ts", first].map(specification);
  const sorted = (await new LongestFirst(run).sort(files)).map(({ moduleId }) => moduleId);
  expect(sorted.slice(0, 2)).toEqual([join(root, first), join(root, second)]);
  expect(sorted).toHaveLength(4);
});
