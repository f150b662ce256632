/** Tests of the keys of images. */

import { expect, test } from "vitest";
import { imageKey, nameOfBase, nameOfKey } from "./image.ts";

test.each([
  ["node24", undefined],
  ["registry.example.com/team/app:1", undefined],
  ["node24", "team_1"],
])("the key of %s of %s tells the name", (name, owner) => {
  expect(nameOfKey(imageKey({ name, owner }))).toBe(name);
});

test("the image of a sandbox is shown by the name that was asked for, or by its own without the team", () => {
  expect(nameOfBase({ image: "~team_1~tool:1", imageName: "tool" })).toBe("tool");
  expect(nameOfBase({ image: "~team_1~tool:1" })).toBe("tool:1");
  expect(nameOfBase({ image: "host" })).toBe("host");
});
