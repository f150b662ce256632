/** Style is a test: what Biome or the type checker object to fails the run, so no reviewer has to say it. */

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { root } from "../harness/harness.ts";

/** Longest time for a tool, in ms. Against hanging only: one that shares its processors with many programs is slow. */
const patience = 15 * 60_000;

// Checkers that run side by side compute many types twice, and other tests use the processors meanwhile.
const typeChecker = ["tsc", "--pretty", "false", "--checkers", "1"] as const;

test("Biome has nothing to say about formatting and lint", { timeout: patience }, () => {
  expect(complaintsOf("biome", "check", "--error-on-warnings", "--colors=off", ".")).toBe("");
});

test("the type checker accepts every file", { timeout: patience }, () => {
  expect(complaintsOf(...typeChecker)).toBe("");
});

test("the type checker accepts every file for browsers", { timeout: patience }, () => {
  expect(complaintsOf(...typeChecker, "-p", "tsconfig.web.json")).toBe("");
});

/** what the tool printed if it failed, else nothing */
function complaintsOf(tool: string, ...args: string[]): string {
  const { status, stdout, stderr, error } = spawnSync(join(root, "node_modules/.bin", tool), args, {
    cwd: root,
    encoding: "utf8",
  });
  if (error) throw error;
  return status === 0 ? "" : `${stdout}${stderr}`;
}
