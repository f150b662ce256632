/**
 * What we tell people to run. A package that npx or npm fetches by its name is whatever holds that name in the registry:
 * no instruction may fetch ours, which is not there, nor any whose name we have not thought about.
 */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { root } from "../harness/harness.ts";

/** packages that npx may be given, each the vendor's own or a development dependency of this repository */
const known = ["sandbox", "@modelcontextprotocol/inspector", "vitest"];

const documents = readdirSync(root).filter((name) => name.endsWith(".md"));
const files = [...documents, ...["docs", "examples", "src", "scripts", "bin", ".ci"].flatMap(filesBelow)]
  .filter((path) => !path.endsWith(".test.ts"))
  .map((path) => ({ path, text: readFileSync(join(root, path), "utf8") }));

test("the instructions are looked at: documents, examples, and what programs print", () => {
  expect(files.map(({ path }) => path)).toEqual(
    expect.arrayContaining([
      "README.md",
      "docs/vercel.md",
      "examples/mcp-stdio.sh",
      "src/daemon/daemon.ts",
      "bin/sandkeep",
    ]),
  );
});

test("no instruction has npx, or npm, fetch a package that is called sandkeep", () => {
  const fetching = /\b(npx|bunx|pnpx|(npm|pnpm|yarn|bun) (exec|x|dlx|create|init))( -{1,2}\S+)* sandkeep\b/;
  const installing = /\b(npm|pnpm|yarn|bun) (i|install|add)( -{1,2}\S+)* sandkeep\b/;
  expect(matching(fetching)).toEqual([]);
  expect(matching(installing)).toEqual([]);
});

test("npx is given only packages that we know", () => {
  const given = matching(/\bnpx( -{1,2}\S+)* (?<name>@?[a-z][\w/.-]*)/);
  expect(given.filter(({ name }) => !known.includes(name))).toEqual([]);
  expect(given.length).toBeGreaterThan(0);
});

/** the places where a pattern occurs, and what its group `name` is there */
function matching(pattern: RegExp): { path: string; text: string; name: string }[] {
  return files.flatMap(({ path, text }) =>
    [...text.matchAll(new RegExp(pattern, "g"))].map((match) => ({
      path,
      text: match[0],
      name: match.groups?.name ?? "",
    })),
  );
}

function filesBelow(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1));
}
