/**
 * Which test files belong to which tier. Unit tests need neither root nor a program of the host. A test file is one if
 * it imports no module that uses the host, directly or through another module of test/, and runs no tool of `npm run check`.
 */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** modules that require root, run programs of the host, or start a server of its packages */
const hostModules = ["test/harness/images/layer-tools.ts", "test/runner/needs.ts", "test/harness/postgres.ts"];

/** modules that change the process of a test for good */
const processModules = ["test/e2e/redirected-process.ts"];

/** `npm run check` runs the same tools, which take a third of the processor time of all unit tests. */
const testsOfTools = ["test/house/style.test.ts"];

/** Test files of every tier are in these folders. */
export const folders = ["src", "test", "guest", "scripts"];

/** The unit tests, by their paths from the repository's root, which is `root`. */
export function unitTests(root: string): string[] {
  return testFiles(root)
    .filter((path) => !path.endsWith(".slow.test.ts"))
    .filter((path) => !testsOfTools.includes(path))
    .filter((path) => !modulesOf(root, path).some((module) => hostModules.includes(module)))
    .sort();
}

/** The tests that need a process of their own, because they set its environment or redirect its requests. */
export function testsOfOwnProcess(root: string): string[] {
  const setsEnvironment = (path: string) => /^ *process\.env\.\w+ = /m.test(readFileSync(join(root, path), "utf8"));
  const redirects = (path: string) => modulesOf(root, path).some((module) => processModules.includes(module));
  return testFiles(root)
    .filter((path) => setsEnvironment(path) || redirects(path))
    .sort();
}

function testFiles(root: string): string[] {
  return folders.flatMap((folder) => filesBelow(root, folder)).filter((path) => path.endsWith(".test.ts"));
}

function filesBelow(root: string, folder: string): string[] {
  const directory = join(root, folder);
  return existsSync(directory)
    ? readdirSync(directory, { recursive: true }).map((name) => join(folder, `${name}`))
    : [];
}

/** a file and its imports from test/, direct and indirect; the product imports nothing from there */
function modulesOf(root: string, path: string, found = new Set<string>()): string[] {
  found.add(path);
  const text = readFileSync(join(root, path), "utf8");
  for (const [, name = ""] of text.matchAll(/^(?!import type).*\bfrom "(\.[^"]*\.ts)";$/gm)) {
    const module = join(dirname(path), name);
    if (module.startsWith("test/") && !found.has(module)) modulesOf(root, module, found);
  }
  return [...found];
}
