/** The rules of the house that a machine can hold: who may import whom, and how every file begins, ends and is named. */

import { existsSync, globSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { describe, expect, test } from "vitest";
import { root } from "../harness/harness.ts";

/** which other parts of src/ each part may import; a part may always import itself */
const mayImport: Record<string, string[]> = {
  // What Node lacks: knows nothing of sandboxes.
  base: [],
  // What two processes, or two versions, write and read: each format once.
  protocols: ["base"],
  core: ["protocols", "base"],
  store: ["core", "base"],
  runtime: ["core", "protocols", "base"],
  api: ["core", "base"],
  ingress: ["core", "base"],
  egress: ["core", "protocols", "base"],
  // Used by a command without a daemon, and by the daemon.
  host: ["core", "base"],
  // Of the API only types, which are gone at run time.
  client: ["api"],
  // The dashboard's pages, in browsers.
  web: ["client"],
  // A client of the API like any other, so that the API is complete.
  cli: ["base", "client", "host"],
  // Commands that work on this host's data directory, without a daemon.
  "cli/offline": ["cli", "core", "runtime", "base"],
  // Loaded into other people's programs, where nothing of ours is.
  redirect: [],
  config: ["core", "base", "log"],
  log: ["core", "base", "config"],
  installation: ["core", "base", "scripts/host-needs.mjs"],
  daemon: ["cli", "config", "installation", "log", "core", "base"],
};

/** files that know the parts: the composition root, what it knows about the host, and the binary with its commands */
const mayImportAll = [
  "src/daemon/daemon.ts",
  "src/daemon/host-facts.ts",
  "src/daemon/network-secrets.ts",
  "src/host-commands.ts",
  "src/main.ts",
];

const longestFile = 450;

/** in one folder, without tests; a source and its header are one */
const mostFiles = 24;

describe("imports", () => {
  test("every part of src/ has a row in the table", () => {
    const parts = readdirSync(join(root, "src"), { withFileTypes: true }).filter((entry) => entry.isDirectory());
    expect(parts.map((part) => part.name).filter((name) => !(name in mayImport))).toEqual([]);
  });

  test("a part imports only the parts that its row allows", () => {
    const wrong = localImports()
      .filter(({ from, to }) => partOf(from) !== partOf(to) && !mayImportAll.includes(from))
      .filter(({ from, to }) => !mayImport[partOf(from)]?.includes(partOf(to)));
    expect(wrong.map(({ from, to }) => `${from} must not import ${to}`)).toEqual([]);
  });

  test("a relative import names a file, with its extension, as Node finds it", () => {
    // Those programs run in a folder with more files.
    const files = sources.filter(({ path }) => !path.startsWith("test/frameworks/"));
    const local = imports(files).filter(({ name }) => name.startsWith("."));
    expect(local.length).toBeGreaterThan(5000);
    const wrong = local.filter(({ from, name }) => !isFile(join(root, dirname(from), name)));
    expect(wrong.map(({ from, name }) => `${from} imports "${name}", which is no file`)).toEqual([]);
  });

  test("the core uses no package, and of Node only types", () => {
    const wrong = imports()
      .filter(({ from, name }) => partOf(from) === "core" && !name.startsWith("."))
      .filter(({ name, typeOnly }) => !(typeOnly && name.startsWith("node:")));
    expect(wrong.map(({ from, name }) => `${from} must not import "${name}"`)).toEqual([]);
  });

  test("the egress process loads one small package, as every host has such a process and its memory counts", () => {
    expect(packagesOf("src/egress/main.ts")).toEqual(["dns-packet"]);
  });

  test("the daemon loads what few hosts or requests need only when they do", () => {
    const packages = packagesOf("src/daemon/daemon.ts");
    expect(packages).toContain("hono");
    expect(packages.filter((name) => /^(pg|dockerfile-ast|@modelcontextprotocol\/.*)$/.test(name))).toEqual([]);
  });

  test("the client imports nothing of the daemon but types", () => {
    const wrong = imports().filter(
      ({ from, name, typeOnly }) => /^src\/client\/(?!.*\.test\.ts$)/.test(from) && !typeOnly && !name.startsWith("./"),
    );
    expect(wrong.map(({ from, name }) => `${from} must not import "${name}" at run time`)).toEqual([]);
  });

  test("a migration uses nothing that may change after its release", () => {
    const wrong = imports()
      .filter(({ from }) => /^src\/store\/migrations\/\d{4}-/.test(from))
      .filter(({ name }) => !name.startsWith("node:") && !["kysely", "./migration.ts"].includes(name));
    expect(wrong.map(({ from, name }) => `${from} must not import "${name}"`)).toEqual([]);
  });

  test("dialects do not import each other", () => {
    const wrong = localImports().filter(({ from, to }) => {
      const [here, there] = [dialectOf(from), dialectOf(to)];
      return here !== undefined && there !== undefined && here !== there && !oneVendor(here, there);
    });
    expect(wrong.map(({ from, to }) => `${from} must not import ${to}`)).toEqual([]);
  });
});

test("a session changes its state in one place", () => {
  const callers = sources.filter(({ path, text }) => path.startsWith("src/core/") && /\.moveSession\(/.test(text));
  expect(callers.map(({ path }) => path)).toEqual(["src/core/sessions/transitions.ts"]);
});

test("the product calls every method of the core's ports", () => {
  const callers = sources
    .filter(({ path }) => path.startsWith("src/") && !/^src\/(runtime|store)\/|\.test\.ts$/.test(path))
    .map(({ text }) => text)
    .join("\n");
  const methods = sources
    .filter(({ path }) => path.startsWith("src/core/ports/"))
    .flatMap(({ text }) => [...text.matchAll(/^ {2}(\w+)\??(?:\(|: \(?\()/gm)].map(([, name = ""]) => name));
  expect(methods.length).toBeGreaterThan(150);
  const idle = methods.filter((name) => !new RegExp(`\\.${name}\\b`).test(callers));
  // How tests and benchmarks prove that a runtime leaves nothing behind.
  expect(idle).toEqual(["reconcile"]);
});

describe("files", () => {
  test("every source file begins by saying what it is for", () => {
    const silent = sources.filter(({ text }) => !/^(#!.*\n+)?(\/\*\*?\s|\/\/ )/.test(text));
    expect(silent.map(({ path }) => `${path} must begin with a comment that says what it is for`)).toEqual([]);
  });

  test("no source file is too long to be read in one go", () => {
    const long = sources.map(({ path, text }) => ({ path, lines: text.split("\n").length - 1 }));
    const wrong = long.filter(({ lines }) => lines > longestFile);
    expect(wrong.map(({ path, lines }) => `${path} has ${lines} lines, at most ${longestFile} may be`)).toEqual([]);
  });

  test("a folder has few enough files to be taken in at a glance", () => {
    const names = sources
      .filter(({ path }) => !path.endsWith(".test.ts"))
      .map(({ path }) => path.replace(/\.\w+$/, ""));
    const sizes = Map.groupBy(new Set(names), dirname);
    const wrong = [...sizes].filter(([, files]) => files.length > mostFiles);
    expect(wrong.map(([folder, files]) => `${folder} has ${files.length} files, at most ${mostFiles} may be`)).toEqual(
      [],
    );
  });

  test("files and folders are named after things, not after being useful", () => {
    const vague = /(^|[/.-])(utils?|helpers?|common|misc)(?=[/.-]|$)/;
    const wrong = sources.filter(({ path }) => vague.test(path));
    expect(wrong.map(({ path }) => `${path} must be named after a noun of the product`)).toEqual([]);
  });

  test("no file names a path outside the repository, since a clone has nothing beside it", () => {
    const wrong = sources.flatMap((source) => {
      const outside = pathsNamedIn(source).filter((target) => target.startsWith(".."));
      return outside.map((target) => `${source.path} must not name ${target}`);
    });
    expect(wrong).toEqual([]);
  });

  test("files that the documents name are there", () => {
    const pages = globSync(["*.md", "docs/*.md"], { cwd: root });
    const named = pages.flatMap((page) =>
      [...readFileSync(join(root, page), "utf8").matchAll(/`((?:src|test|guest|scripts|bench|docs)\/[^`*<… ]+)`/g)].map(
        ([, path = ""]) => ({ page, path }),
      ),
    );
    expect(named.length).toBeGreaterThan(100);
    const wrong = named.filter(({ path }) => !existsSync(join(root, path)));
    expect(wrong.map(({ page, path }) => `${page} names ${path}`)).toEqual([]);
  });

  test("links of the packed documents lead to packed files", () => {
    const { files } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { files: string[] };
    const packed = new Set([
      "LICENSE",
      ...globSync(
        files.filter((pattern) => !pattern.startsWith("!")),
        { cwd: root },
      ),
    ]);
    const wrong = globSync(["README.md", "docs/*.md"], { cwd: root }).flatMap((page) =>
      [...readFileSync(join(root, page), "utf8").matchAll(/\]\((?!https?:|#)([^)#\s]+)/g)]
        .map(([, link = ""]) => join(dirname(page), link))
        .filter((path) => !packed.has(path))
        .map((path) => `${page} links to ${path}, which the package lacks`),
    );
    expect(wrong).toEqual([]);
  });

  test("no file silences the type checker", () => {
    const wrong = sources.filter(({ text }) => /@ts-(ignore|nocheck)/.test(text));
    expect(wrong.map(({ path }) => `${path} must not switch the type checker off`)).toEqual([]);
  });
});

interface Source {
  /** relative to the repository */
  path: string;
  text: string;
}

const sources: Source[] = ["src", "test", "bench", "scripts", "guest", "examples"].flatMap(sourcesBelow);

function sourcesBelow(directory: string): Source[] {
  return entriesOf(directory).flatMap((entry) => {
    const path = join(directory, entry.name);
    if (entry.isDirectory()) return ["node_modules", "build"].includes(entry.name) ? [] : sourcesBelow(path);
    return /\.(ts|mjs|c|h)$/.test(path) ? [{ path, text: readFileSync(join(root, path), "utf8") }] : [];
  });
}

function entriesOf(directory: string) {
  try {
    return readdirSync(join(root, directory), { withFileTypes: true });
  } catch {
    // Not every folder of the house exists from the first day.
    return [];
  }
}

/** the paths that a file makes from the repository's root or its own place, relative to the root */
function pathsNamedIn({ path, text }: Source): string[] {
  const named = /\b(root|import\.meta\.dirname), ((?:"[^"]*",? ?)+)|new URL\("(\.[^"]*)"/g;
  return [...text.matchAll(named)].map(([, from, list = "", url = ""]) => {
    const parts = [...list.matchAll(/[^", ]+/g)].map(([part]) => part);
    return join(from === "root" ? "." : dirname(path), ...parts, url);
  });
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}

interface Import {
  from: string;
  /** as written: "./wire.ts", "node:net", "zod" */
  name: string;
  typeOnly: boolean;
  /** whether the program decides when it is loaded */
  isLater: boolean;
}

/** what files import; those of the product, unless others are given: tests may reach anywhere */
function imports(files = sources.filter(({ path }) => /^src\/(?!.*\.test\.ts$)/.test(path))): Import[] {
  const statement =
    /^\s*(?:import|export)\s+(type\s)?[\w$*\s{},]*from\s*["']([^"']+)["']|^\s*import\s*["']([^"']+)["']/gm;
  const call = /\bimport\(\s*["']([^"']+)["']\s*\)/g;
  return files.flatMap(({ path, text }) => [
    ...[...text.matchAll(statement)].map(([, type, name, bare]) => ({
      from: path,
      name: name ?? bare ?? "",
      typeOnly: type !== undefined,
      isLater: false,
    })),
    ...[...text.matchAll(call)].map(([, name = ""]) => ({ from: path, name, typeOnly: false, isLater: true })),
  ]);
}

/** the packages that are loaded with a file, in order */
function packagesOf(main: string): string[] {
  const all = imports().filter(({ typeOnly, isLater }) => !typeOnly && !isLater);
  const loaded = new Set([main]);
  const packages = new Set<string>();
  // A set is walked with what is added meanwhile.
  for (const file of loaded) {
    for (const { name } of all.filter(({ from }) => from === file)) {
      if (name.startsWith(".")) loaded.add(join(dirname(file), name));
      else if (!name.startsWith("node:")) packages.add(name);
    }
  }
  return [...packages].sort();
}

function localImports(): { from: string; to: string }[] {
  return imports()
    .filter(({ name }) => name.startsWith("."))
    .map(({ from, name }) => ({ from, to: join(dirname(from), name) }));
}

/** "core" of src/core/ports/runtime.ts, "main.ts" of src/main.ts, the path itself of what lies outside src/ */
function partOf(path: string): string {
  if (path.startsWith("src/cli/offline/")) return "cli/offline";
  const [part = path] = relative("src", path).split("/");
  return part === ".." ? path : part;
}

/** MCP has Veryfront's tools, which show its nouns as its own wire does */
function oneVendor(here: string, there: string): boolean {
  return here === "mcp" && there === "veryfront";
}

/** "vercel" of src/api/vercel/vercel.ts; src/api/kit and the files directly in src/api belong to no dialect */
function dialectOf(path: string): string | undefined {
  return /^src\/api\/(?!kit\/)([^/]+)\//.exec(path)?.[1];
}
