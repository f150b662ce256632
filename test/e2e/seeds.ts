/** The JSON schemas in the documents that the project began with, read where they lie beside the repository. */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../harness.ts";

const folder = join(root, "../shared/seeds");

export const hasSeeds = existsSync(folder);

/** the JSON after a heading of the document whose name begins with this number */
export function seedSchema(number: string, heading: string): object {
  const file = readdirSync(folder).find((name) => name.startsWith(`${number}_`)) ?? "";
  const text = readFileSync(join(folder, file), "utf8");
  const from = text.indexOf("{", text.indexOf(`\n${heading}\n`));
  return JSON.parse(text.slice(from, endOfJson(text, from))) as object;
}

/** where the object ends that begins here; the documents have no braces in strings */
function endOfJson(text: string, from: number): number {
  let depth = 0;
  for (let at = from; at < text.length; at++) {
    if (text[at] === "{") depth++;
    if (text[at] === "}" && --depth === 0) return at + 1;
  }
  throw new Error("The JSON in the document has no end");
}
