/** No vendor's name stands outside its own folder: what a vendor needs elsewhere, its dialect hands over as data. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { root } from "../harness/harness.ts";

/** E2BIG is an error of the kernel */
const vendors = /vercel|instavm|veryfront|e2b(?!ig\b)/i;

/** places that are about vendors */
const allowed = [
  /^src\/api\/(vercel|instavm|veryfront|e2b)\//,
  // Choose among the dialects.
  /^src\/api\/(server|default-dialect)\.ts$/,
  // One vendor's tools, in MCP's words.
  /^src\/api\/mcp\/(families|paths|tools\/veryfront)\.ts$/,
  // Loaded into programs that use a vendor's SDK, and the command that says how.
  /^src\/(redirect|cli)\//,
];

test("no vendor is named outside the folders that are about it", () => {
  const files = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })
    .map((name) => `src/${name}`)
    .filter((path) => /(?<!\.test)\.ts$/.test(path) && !allowed.some((place) => place.test(path)));
  const found = files.flatMap((path) => {
    const lines = readFileSync(join(root, path), "utf8").split("\n");
    return lines.flatMap((line, at) => (vendors.test(line) ? [`${path}:${at + 1}: ${line.trim()}`] : []));
  });
  expect(found).toEqual([]);
});
