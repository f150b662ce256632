/** Which stages of a plan a build needs, and which of them its image is made of. */

import { expect, test } from "vitest";
import { type BuildStage, emptySettings, neededStages, type StageBase, stagesBelow } from "./build-plan.ts";

function stage(name: string, base: StageBase, copiedFrom?: StageBase): BuildStage {
  const copied = copiedFrom && { kind: "copy" as const, from: copiedFrom, sources: ["a"], inline: [], target: "/" };
  return { name, base, steps: copied ? [{ text: "COPY", action: copied }] : [], settings: emptySettings() };
}

test("an image is made of the stages that its target begins with, not of those that it copies from", () => {
  const stages = [
    stage("base", { image: "debian" }),
    stage("tools", { image: "debian" }),
    stage("middle", { stage: 0 }),
    stage("last", { stage: 2 }, { stage: 1 }),
  ];
  expect(neededStages({ stages, target: 3 })).toEqual([0, 1, 2, 3]);
  expect(stagesBelow({ stages, target: 3 }).map(({ name }) => name)).toEqual(["base", "middle", "last"]);
  expect(stagesBelow({ stages, target: 1 }).map(({ name }) => name)).toEqual(["tools"]);
});
