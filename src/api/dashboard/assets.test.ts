/** The dashboard's files as browsers get them: without types, with addresses of packages, and small. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { root } from "../../../test/harness/harness.ts";
import { Assets } from "./assets.ts";
import { patchTerminal } from "./terminal-patch.ts";

const assets = new Assets({ modules: join(root, "src"), styles: join(root, "src/web") });
const hash = assets.version().base.split("/").at(-1) ?? "";

function text(path: string): string {
  return assets.find(hash, path)?.bytes.toString() ?? "";
}

/** the modules that a module loads before it runs, and itself */
function withImports(path: string, seen = new Set<string>()): Set<string> {
  if (seen.has(path)) return seen;
  seen.add(path);
  for (const [, name = ""] of text(path).matchAll(/(?:\bfrom|^import)\s*["']([./][^"']*)["']/gm)) {
    withImports(new URL(name, `http://x/ui/v/${hash}/${path}`).pathname.replace(`/ui/v/${hash}/`, ""), seen);
  }
  return seen;
}

test("modules have no types, and import only addresses that are served", () => {
  const loaded = [...withImports("web/main.ts")];
  expect(loaded).toContain("npm/preact.js");
  expect(loaded).toContain("client/client.ts");
  expect(loaded.filter((path) => assets.find(hash, path) === undefined)).toEqual([]);
  expect(text("web/main.ts")).not.toContain("import type");
  expect(assets.find(hash, "web/../main.ts")).toBeUndefined();
  expect(assets.find(hash, "web/data/query.test.ts")).toBeUndefined();
  expect(assets.find("0000000000000000", "web/main.ts")).toBeUndefined();
});

/** what the first page loads by itself, which test/web/dashboard.test.ts also measures in a browser */
const firstView = ["web/main.ts", "web/pages/overview.ts"];

test("the first view is at most 40 kB of scripts and 8 kB of styles, compressed", () => {
  const scripts = [...new Set(firstView.flatMap((path) => [...withImports(path)]))].map(text);
  const styles = ["tokens", "frame", "views", "sandbox"].map((name) => text(`web/${name}.css`));
  const compressed = (parts: string[]) => parts.reduce((sum, part) => sum + gzipSync(part, { level: 9 }).length, 0);
  expect(scripts.length).toBeGreaterThan(20);
  expect(compressed(scripts)).toBeLessThan(40_000);
  expect(compressed(styles)).toBeLessThan(8000);
});

test("an answer is compressed if the client can read that, and carries the content security policy", async () => {
  const asset = assets.find(hash, "web/main.ts");
  if (!asset) throw new Error("There is no main module");
  const answer = assets.answer(asset, "br, gzip");
  expect(answer.headers.get("content-encoding")).toBe("gzip");
  expect(answer.headers.get("content-security-policy")).toContain("trusted-types 'none'");
  expect(await assets.answer(asset).text()).toBe(text("web/main.ts"));
});

test("a release of xterm with other styles fails the patch", () => {
  const original = readFileSync(join(root, "node_modules/@xterm/xterm/lib/xterm.mjs"), "utf8");
  expect(patchTerminal(original)).not.toContain('createElement("style")');
  expect(() => patchTerminal(`${original}x.createElement("style")`)).toThrow("4 times, and 3 were expected");
});
