/**
 * The dashboard's scripts and styles, without a build step: modules of src/web/ lose their types when they are first asked
 * for, names of packages become addresses, and everything is kept in memory under a hash of all contents.
 */

import { createHash } from "node:crypto";
import { existsSync, globSync, readFileSync } from "node:fs";
import { findPackageJSON, stripTypeScriptTypes } from "node:module";
import { dirname, extname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { safeHeaders } from "./page.ts";
import { patchTerminal } from "./terminal-patch.ts";

/** Where the files are. */
export interface DashboardFiles {
  /** the folder of web/ and client/: src/ in a clone, dist/ in an installed package */
  modules: string;
  /** the folder of the styles */
  styles: string;
}

interface Asset {
  type: string;
  bytes: Buffer<ArrayBuffer>;
  gzipped: Buffer<ArrayBuffer>;
}

/** packages that pages may import: the name in an import, and the file of the package */
const packages: Record<string, { file: string; served: string; patch?: (text: string) => string }> = {
  preact: { file: "dist/preact.mjs", served: "preact.js" },
  "preact/hooks": { file: "hooks/dist/hooks.mjs", served: "hooks.js" },
  "@preact/signals": { file: "dist/signals.mjs", served: "signals.js" },
  "@preact/signals-core": { file: "dist/signals-core.mjs", served: "signals-core.js" },
  htm: { file: "dist/htm.mjs", served: "htm.js" },
  "@xterm/xterm": { file: "lib/xterm.mjs", served: "xterm.js", patch: patchTerminal },
  "@xterm/addon-fit": { file: "lib/addon-fit.mjs", served: "addon-fit.js" },
};

const types: Record<string, string> = {
  ".ts": "text/javascript; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

export class Assets {
  readonly #files: DashboardFiles;
  #loaded: { hash: string; assets: Map<string, Asset> } | undefined;

  constructor(files: DashboardFiles) {
    this.#files = files;
  }

  /** the address of this version's files, and how names of its modules end */
  version(): { base: string; extension: string } {
    return { base: `/ui/v/${this.#load().hash}`, extension: this.#extension() };
  }

  find(hash: string, path: string): Asset | undefined {
    const loaded = this.#load();
    return hash === loaded.hash ? loaded.assets.get(path) : undefined;
  }

  answer({ type, bytes, gzipped }: Asset, accepted = ""): Response {
    const isGzip = /\bgzip\b/.test(accepted);
    return new Response(isGzip ? gzipped : bytes, {
      headers: {
        ...safeHeaders,
        "content-type": type,
        "cache-control": "public, max-age=31536000, immutable",
        vary: "accept-encoding",
        ...(isGzip && { "content-encoding": "gzip" }),
      },
    });
  }

  #extension(): string {
    return existsSync(join(this.#files.modules, "web/main.ts")) ? ".ts" : ".js";
  }

  /** a daemon whose dashboard no browser opens spends nothing on it */
  #load() {
    this.#loaded ??= loaded(this.#texts());
    return this.#loaded;
  }

  /** every file by its path below the hash */
  #texts(): Map<string, string> {
    const { modules, styles } = this.#files;
    const extension = this.#extension();
    const own = [...globSync(`web/**/*${extension}`, { cwd: modules }), `client/client${extension}`].filter(
      (path) => !/\.(test|d)\.ts$/.test(path),
    );
    const texts = new Map<string, string>();
    for (const path of own.sort()) texts.set(path, readFileSync(join(modules, path), "utf8"));
    for (const name of globSync("*.{css,svg}", { cwd: styles }).sort()) {
      texts.set(`web/${name}`, readFileSync(join(styles, name), "utf8"));
    }
    for (const [name, { file, served, patch = (text: string) => text }] of Object.entries(packages)) {
      texts.set(`npm/${served}`, patch(readFileSync(packageFile(name, file), "utf8")));
    }
    texts.set("npm/xterm.css", readFileSync(packageFile("@xterm/xterm", "css/xterm.css"), "utf8"));
    return texts;
  }
}

function packageFile(name: string, file: string): string {
  const owner = name.startsWith("@") ? name.split("/").slice(0, 2).join("/") : (name.split("/")[0] ?? "");
  const found = findPackageJSON(owner, import.meta.url);
  if (found === undefined) throw new Error(`Cannot serve the dashboard: the package "${owner}" is not installed`);
  return join(dirname(found), file);
}

function loaded(texts: Map<string, string>): { hash: string; assets: Map<string, Asset> } {
  const digest = createHash("sha256");
  for (const [path, text] of texts) digest.update(path).update("\0").update(text).update("\0");
  const hash = digest.digest("hex").slice(0, 16);
  const assets = new Map<string, Asset>();
  for (const [path, text] of texts) {
    const bytes = Buffer.from(isModule(path) ? browserModule(path, text, `/ui/v/${hash}`) : withoutSpace(path, text));
    assets.set(path, { type: types[extname(path)] ?? "text/plain", bytes, gzipped: gzipSync(bytes, { level: 9 }) });
  }
  return { hash, assets };
}

function isModule(path: string): boolean {
  return [".ts", ".js"].includes(extname(path));
}

/** the module as a browser runs it */
function browserModule(path: string, text: string, base: string): string {
  const javascript = path.endsWith(".ts") ? withoutTypes(text) : text;
  return withoutSpace(path, javascript)
    .replaceAll(
      /((?:\bfrom|\bimport)\s*\(?\s*)(["'])([^"'\s.][^"'\s]*)\2/g,
      (whole, before: string, _, name: string) => {
        const known = packages[name];
        return known ? `${before}"${base}/npm/${known.served}"` : whole;
      },
    )
    .replace(/\n\/\/# sourceMappingURL=\S+\s*$/, "\n");
}

/** a file of ours without comments and the space around lines, which are a sixth of what a browser would load */
function withoutSpace(path: string, text: string): string {
  if (!path.startsWith("web/") && !path.startsWith("client/")) return text;
  const lines = text
    .replaceAll(/^[ \t]*\/\*[\s\S]*?\*\/[ \t]*$/gm, "")
    .replaceAll(/^[ \t]*\/\/.*$/gm, "")
    .replaceAll(/^[ \t]+|[ \t]+$/gm, "")
    .replaceAll(/\n{2,}/g, "\n");
  if (!path.endsWith(".css")) return lines;
  return lines
    .replaceAll(/([{};,])\n/g, "$1")
    .replaceAll(/ (?=\{)|(?<=[:,]) | (?=> )|(?<= >) |;(?=\})/g, "")
    .replaceAll(/(?<=[ :,(])0(?=\.\d)/g, "")
    .replaceAll(/="([a-z]+)"\]/g, "=$1]");
}

/** Node calls this function experimental, once, on stderr, where it would alarm people. */
function withoutTypes(text: string): string {
  const { emitWarning } = process;
  process.emitWarning = () => undefined;
  try {
    return stripTypeScriptTypes(text);
  } finally {
    process.emitWarning = emitWarning;
  }
}
