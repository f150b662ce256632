/**
 * Checks the Node of the npm packages against the digests in node-digests.txt.
 * Plain JavaScript without dependencies, run by the host's own Node: the packaged one must not run before this check.
 */

import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

/**
 * Why the packaged Node below a node_modules folder must not run; undefined if it may, or if there is none.
 * @param {string} modules
 * @param {Record<string, string>} [digests] by package
 */
export function refusalOf(modules, digests = nodeDigests()) {
  const name = `node-linux-${process.arch}`;
  const program = join(modules, name, "bin/node");
  if (!existsSync(program)) return undefined;
  const found = createHash("sha256").update(readFileSync(program)).digest("hex");
  if (found === digests[name]) return undefined;
  return `Cannot run ${program}: it is not the Node of scripts/node-digests.txt, its SHA-256 is ${found} instead of ${digests[name]}`;
}

/** The SHA-256 of bin/node by package. */
export function nodeDigests() {
  const text = readFileSync(
    join(import.meta.dirname ?? new URL(".", import.meta.url).pathname, "node-digests.txt"),
    "utf8",
  );
  const lines = [...text.matchAll(/^([0-9a-f]{64}) {2}(\S+)$/gm)];
  return Object.fromEntries(lines.map(([, digest = "", name = ""]) => [name, digest]));
}
