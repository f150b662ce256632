/** Tests of the keys of images. */

import { expect, test } from "vitest";
import { imageKey, nameOfKey } from "./image.ts";

test.each([
  ["node24", undefined],
  ["registry.example.com/team/app:1", undefined],
  ["node24", "team_1"],
])("the key of %s of %s tells the name", (name, owner) => {
  expect(nameOfKey(imageKey({ name, owner }))).toBe(name);
});
