/**
 * What we tell people to run. A package that npx or npm fetches by its name is whatever holds that name in the registry:
 * no instruction may fetch ours, which is not there, nor any whose name we have not thought about.
 */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { root } from "../harness/harness.ts";

const manifest: { devDependencies: Record<string, string> } = JSON.parse(
  readFileSync(join(root, "package.json"), "utf8"),
);
const frameworks: { dependencies: Record<string, string> } = JSON.parse(
  readFileSync(join(root, "test/frameworks/package.json"), "utf8"),
);

/** what npx may be given: the vendor's own packages in the version that our tests use, and a tool of this repository */
const known = [versioned("sandbox-cli-4"), versioned("@modelcontextprotocol/inspector"), "vitest"];

/** what the documents have a reader install: packages that our tests use, Node, and the agents that docs/agents.md is about */
const knownToNpm = [
  ...Object.keys(manifest.devDependencies),
  ...Object.keys(frameworks.dependencies),
  ...["node", "@anthropic-ai/claude-code", "@openai/codex", "opencode-ai"],
];
const knownToPip = ["ipykernel", "jjava", "spacy", "uv"];

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

test("npx is given only packages that we know, in a fixed version", () => {
  const given = matching(/\bnpx( -{1,2}\S+)* (?<name>@?[a-z][\w/.@-]*)/);
  expect(given.filter(({ name }) => !known.includes(name))).toEqual([]);
  expect(given.length).toBeGreaterThan(0);
});

test("npm and pip install only packages that we know", () => {
  const installed = {
    npm: namesAfter(/\b(npm|pnpm|yarn|bun) (i|install|add)\b/),
    pip: namesAfter(/\bpip3? install\b/),
  };
  expect(installed.npm.filter(({ name }) => !knownToNpm.includes(name))).toEqual([]);
  expect(installed.pip.filter(({ name }) => !knownToPip.includes(name))).toEqual([]);
  const names = [...installed.npm, ...installed.pip].map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(["@vercel/sandbox", "langchain", "opencode-ai", "ipykernel"]));
});

test("the documents name the Node that a vendor's SDK needs where a reader installs it", () => {
  const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8"));
  const textOf = (path: string) => files.find((file) => file.path === path)?.text;
  // The SDK states no version of Node itself; this dependency of it does.
  const oldest = packages["node_modules/undici"].engines.node.replace(">=", "");
  expect(textOf("README.md")).toContain(`this program needs Node ${oldest} or later`);
  expect(textOf("docs/vercel.md")).toContain(`\`@vercel/sandbox\` needs Node ${oldest} or later`);
  expect(packages["node_modules/e2b"].engines.node).toMatch(`>=${oldest}`);
  expect(textOf("docs/e2b.md")).toContain(`need Node ${oldest} or later`);
});

/** a development dependency as npx takes it: name@version */
function versioned(dependency: string): string {
  const version = manifest.devDependencies[dependency] ?? "";
  return version.startsWith("npm:") ? version.slice("npm:".length) : `${dependency}@${version}`;
}

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

/** the packages that follow a command on its line, without their versions; a word after an option may be its value */
function namesAfter(command: RegExp): { path: string; name: string }[] {
  const calls = matching(new RegExp(`${command.source}(?<name>[^\\n\`"'|;&#$)]*)`));
  return calls.flatMap(({ path, name: words }) => {
    const given = words.trim().split(/\s+/).entries().toArray();
    const isValue = (at: number) => /^--(prefix|registry|target)$/.test(words.trim().split(/\s+/)[at - 1] ?? "");
    return given
      .filter(([at, word]) => /^@?[a-z]/i.test(word) && !isValue(at))
      .map(([, word]) => ({ path, name: word.replace(/(?<=.)@.*|[=<>].*/, "") }));
  });
}

function filesBelow(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1));
}
