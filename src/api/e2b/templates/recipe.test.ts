/** The plan that steps of a template become. */

import { expect, test } from "vitest";
import { emptySettings } from "../../../core/builds/build-plan.ts";
import { recipeOf } from "./recipe.ts";
import type { StartBody, Step } from "./schemas.ts";

const image = { name: "debian", candidates: ["debian"] };
const hash = "0".repeat(64);

function planOf(steps: Step[], { inherits = false, ...body }: { inherits?: boolean } & Partial<StartBody> = {}) {
  const recipe = recipeOf({ image, inherits }, { steps, ...body });
  const settings = { ...emptySettings(), env: { PATH: "/bin" }, user: "root", cwd: "/srv", start: { command: "old" } };
  const [stage] = recipe.plan(new Map([["debian", settings]])).stages;
  return { recipe, settings: stage?.settings, actions: stage?.steps.map(({ action }) => action) ?? [] };
}

test("variables are expanded with those of before, and paths are below the directory", () => {
  const { settings, actions } = planOf([
    { type: "ENV", args: ["A", "1", "B", `\${A}x$PATH$NONE\\'`] },
    { type: "env", args: ["B", `$A-\${PATH}`] },
    { type: "WORKDIR", args: ["app/$A"] },
    { type: "COPY", args: ["src", "../x/", "", "0640"], filesHash: hash },
    { type: "RUN", args: ["make"] },
    { type: "RUN", args: ["make install", "root"] },
  ]);
  expect(settings?.env).toEqual({ PATH: "/bin", A: "1", B: "1-/bin" });
  const from = { upload: hash };
  expect(actions).toMatchObject([
    { kind: "directory", path: "/home/user", user: "user", shows: true },
    { kind: "setting" },
    { kind: "setting" },
    { kind: "directory", path: "/home/user/app/1" },
    { kind: "copy", from, sources: ["src"], target: "/home/user/app/x/", owner: "user", mode: 0o640 },
    { kind: "run", user: "user", cwd: "/home/user/app/1", env: { B: "1-/bin" } },
    { kind: "run", user: "root" },
  ]);
});

test("an image with ONBUILD, whose steps would be left out, is refused by its first one", () => {
  const recipe = recipeOf({ image, inherits: false }, { steps: [] });
  const settings = { ...emptySettings(), onBuild: ["COPY . /src", "RUN make"] };
  expect(() => recipe.plan(new Map([["debian", settings]]))).toThrow(
    "Cannot build the template: the image has ONBUILD COPY . /src, which is not supported",
  );
  const [stage] = recipe.plan(new Map([["debian", { ...settings, onBuild: [] }]])).stages;
  expect(stage?.settings).not.toHaveProperty("onBuild");
});

test("a user that an image may lack is made as root, and its name is an argument, never text of the shell", () => {
  const { actions, settings } = planOf([
    { type: "USER", args: ["root"] },
    { type: "USER", args: ["app", "true"] },
  ]);
  expect(actions.slice(1)).toMatchObject([
    { kind: "setting" },
    { kind: "run", user: "root", argv: ["/bin/sh", "-c", expect.not.stringContaining("app"), "sh", "app", "true"] },
  ]);
  expect(settings?.user).toBe("app");
});

test("a template takes over user, directory and start command of a template, and nothing of an image's", () => {
  expect(planOf([]).settings).toMatchObject({ user: "user", cwd: "/home/user", start: undefined });
  const inherits = { inherits: true };
  expect(planOf([], inherits).settings).toMatchObject({ user: "root", cwd: "/srv", start: { command: "old" } });
  const own = { ...inherits, startCmd: "new", readyCmd: "true", force: true };
  const { settings, recipe } = planOf([], own);
  expect([settings?.start, recipe.useCache, recipe.prelude]).toEqual([{ command: "new", ready: "true" }, false, 0]);
  // Clients add this wait to the CMD of a Dockerfile.
  const guessed = planOf([], { startCmd: "new", readyCmd: "sleep 20" });
  expect(guessed.settings?.start).toEqual({ command: "new" });
});

test("variables that repeat each other are refused before they fill the memory", () => {
  const many = "$A".repeat(30_000);
  const steps = ["x", many, many, many, many].map((text) => ({ type: "ENV", args: ["A", text] }));
  expect(() => planOf(steps)).toThrow(/step 3: a text becomes too long/);
  const long = { type: "ENV", args: ["A", "x".repeat(60_000)] };
  expect(() => planOf([long, { type: "WORKDIR", args: ["$A$A"] }])).toThrow(/step 2: a text becomes too long/);
  const wide = Array.from({ length: 20 }, (_, at) => ({ type: "ENV", args: [`V${at}`, "x".repeat(60_000)] }));
  expect(() => planOf(wide)).toThrow(/step 18: the variables are too long together/);
  const names = Array.from({ length: 1001 }, (_, at) => [`V${at}`, ""]).flat();
  expect(() => planOf([{ type: "ENV", args: names }])).toThrow(/more than 1000 variables/);
});
