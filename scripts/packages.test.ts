/** Tests of which packages are installed: with too few a start fails, with too many a first start takes minutes. */

import { expect, test } from "vitest";
import { areCurrent, installArguments } from "./packages.mjs";

const own = "node_modules/own-node";
const locked = {
  "": { version: "1" },
  "node_modules/a": { version: "1", integrity: "x" },
  "node_modules/tool": { version: "2", integrity: "y", dev: true },
  [own]: { version: "3", integrity: "z", optional: true },
};
const { "node_modules/tool": tool, ...served } = locked;
const all = { ...served, "node_modules/tool": tool };
const serving = { dev: false, required: [] };
const testing = { dev: true, required: [] };

test("serving needs nothing that only development needs, and a later test detects the missing packages", () => {
  expect(areCurrent(locked, served, serving)).toBe(true);
  expect(areCurrent(locked, served, testing)).toBe(false);
  expect(areCurrent(locked, all, testing)).toBe(true);
  expect(areCurrent(locked, {}, serving)).toBe(false);
});

test("another version, or another content of the same version, is not accepted", () => {
  for (const other of [
    { version: "2", integrity: "x" },
    { version: "1", integrity: "changed" },
  ]) {
    expect(areCurrent(locked, { ...all, "node_modules/a": other }, serving)).toBe(false);
  }
});

test("an optional package may be missing, unless this host needs it", () => {
  const { [own]: _, ...without } = all;
  expect(areCurrent(locked, without, serving)).toBe(true);
  expect(areCurrent(locked, without, { ...serving, required: [own] })).toBe(false);
});

test("a start installs what serving needs, and keeps other installed packages", () => {
  expect(installArguments({}, serving)).toContain("--omit=dev");
  expect(installArguments(served, serving)).toContain("--omit=dev");
  expect(installArguments(all, serving)).toContain("--include=dev");
  expect(installArguments(served, testing)).toContain("--include=dev");
});
