/** CONTRIBUTING names what is there: every package that we depend on, and no other. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { root } from "../harness/harness.ts";

const text = readFileSync(join(root, "CONTRIBUTING.md"), "utf8");
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const packages = Object.keys({
  ...manifest.dependencies,
  ...manifest.devDependencies,
  ...manifest.optionalDependencies,
});

/** the names in the first column of the table of packages; one may end in a star */
const [, table = ""] = text.split("\n## Dependencies\n");
const named = [...table.matchAll(/^\| (`[^|]*`) \|/gm)]
  .flatMap(([, cell = ""]) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name))
  .filter((name) => !name.endsWith(".json"));

function isNamed(name: string, by: string): boolean {
  return by.endsWith("*") ? name.startsWith(by.slice(0, -1)) : name === by;
}

test("its table has a reason for every package of package.json", () => {
  expect(packages.length).toBeGreaterThan(40);
  expect(packages.filter((name) => !named.some((by) => isNamed(name, by)))).toEqual([]);
});

test("its table names no package that package.json lacks, and none twice", () => {
  expect(named.filter((by) => !packages.some((name) => isNamed(name, by)))).toEqual([]);
  expect(named.filter((by, at) => named.indexOf(by) !== at)).toEqual([]);
});

test("it names only commands of package.json", () => {
  const commands = [...text.matchAll(/\bnpm run ([\w:]+)/g)].map(([, name = ""]) => name);
  expect(commands).toContain("check");
  expect(commands.filter((name) => !(name in manifest.scripts))).toEqual([]);
});
