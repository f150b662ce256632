/**
 * Makes the JavaScript that `npm pack` ships instead of src/, in the folder that is named: the programs of the package,
 * each in a few files with the code of the packages that it uses, and the modules of the dashboard, which browsers load
 * one by one.
 *
 *   node scripts/bundle.ts FOLDER
 *
 * Node keeps the text of every module in memory, and takes two bytes for each of its characters if one of them is not
 * Latin. Without comments and blanks, and in few files, an idle daemon is a third smaller and starts sooner. Names stay
 * as they are, because errors show them.
 */

import { existsSync, globSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { transform } from "esbuild";
import { type OutputOptions, rolldown } from "rolldown";

const root = join(import.meta.dirname, "..");

/** programs that are one file each, by their names in the folder: threads are found beside the module that starts them */
const small = {
  egress: "egress/main.ts",
  "layer-thread": "runtime/linux/oci/layer-thread.ts",
  "checkpoint-thread": "store/engines/checkpoint-thread.ts",
};

/**
 * What `sandkeep run` loads is in one file, because each file takes Node a third of a millisecond. Other commands share
 * files, so that each loads only what it needs.
 */
const loadedByRun =
  /\/src\/(cli\/(sandboxes\/(run|program)|client\/connection)|core\/model\/errors|config\/default-data-dir|daemon\/signals)\.ts$/;
const sharedFiles = { groups: [{ name: "run", test: loadedByRun }] };

/** makes the folder's content */
export async function bundle(folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  const programs = Object.entries(small).map(([name, path]) => program(folder, name, path, false));
  const files = await Promise.all([program(folder, "main", "main.ts", sharedFiles), ...programs]);
  writeFileSync(join(folder, "licenses.txt"), licenses(files.flat()));
  for (const path of dashboardModules()) {
    const file = join(folder, path.replace(/\.ts$/, ".js"));
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, await asJavaScript(readFileSync(join(root, "src", path), "utf8")));
  }
}

/** the files that went into it */
async function program(
  folder: string,
  name: string,
  path: string,
  codeSplitting: NonNullable<OutputOptions["codeSplitting"]>,
): Promise<string[]> {
  const bundled = await rolldown({
    cwd: root,
    input: { [name]: join("src", path) },
    platform: "node",
    external: ["pg-native", "bufferutil", "utf-8-validate"],
    tsconfig: false,
    // A clone loads that module later than what needs it at once.
    checks: { ineffectiveDynamicImport: false },
  });
  const { output } = await bundled.generate({
    codeSplitting,
    comments: false,
    minify: { compress: true, mangle: false },
  });
  const chunks = output.filter((file) => file.type === "chunk");
  await Promise.all(chunks.map(async ({ fileName, code }) => writeFileSync(join(folder, fileName), await short(code))));
  return chunks.flatMap(({ moduleIds }) => moduleIds.map((id) => relative(root, id)));
}

/** the same code in short lines: an error names a line, so a line must not be everything */
async function short(text: string): Promise<string> {
  const { code } = await transform(text, { minifyWhitespace: true, lineLimit: 160, legalComments: "none" });
  return code;
}

function dashboardModules(): string[] {
  const pages = globSync("web/**/*.ts", { cwd: join(root, "src") });
  return [...pages, "client/client.ts"].filter((path) => !/\.(test|d)\.ts$/.test(path));
}

async function asJavaScript(text: string): Promise<string> {
  const tsconfigRaw = { compilerOptions: { verbatimModuleSyntax: true } };
  const { code } = await transform(text, { loader: "ts", target: "es2024", charset: "utf8", tsconfigRaw });
  return code.replaceAll(/((?:\bfrom|\bimport)\s*\(?\s*"\.[^"]*)\.ts"/g, '$1.js"');
}

/** the licenses of the packages that these files belong to, which copies of their code must carry */
function licenses(files: string[]): string {
  const packages = new Set(files.flatMap((file) => file.match(/.*\bnode_modules\/(@[^/]+\/)?[^/]+/)?.[0] ?? []));
  return [...packages].sort().map(licenseOf).join("\n\n");
}

function licenseOf(path: string): string {
  const { name, version, license } = JSON.parse(readFileSync(join(root, path, "package.json"), "utf8"));
  const names = readdirSync(join(root, path));
  // Some packages have it at the end of their README.
  const file = names.find((each) => /^licen[cs]e/i.test(each)) ?? names.find((each) => /^readme/i.test(each));
  const text = file === undefined ? "" : readFileSync(join(root, path, file), "utf8").trim();
  if (!/licen[cs]e|copyright/i.test(text)) throw new Error(`Cannot bundle "${name}": it has no text of its license`);
  return `${name} ${version} (${license})\n\n${text}`;
}

if (import.meta.main) {
  const [folder] = process.argv.slice(2);
  if (folder === undefined) throw new Error("Cannot bundle: name the folder");
  if (existsSync(join(folder, "main.js"))) throw new Error(`Cannot bundle into "${folder}": it has a bundle already`);
  await bundle(folder);
}
