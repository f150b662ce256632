/**
 * Compiles programs of guest/test/ together with the sources of the guest that they exercise. Many test files use the
 * same programs, so each is compiled once in a run.
 */

import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { cp } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { runFolder } from "../../runner/run-folder.ts";
import { root } from "../harness.ts";
import { madeOnce } from "../made-once.ts";

const run = promisify(execFile);

/** the folder that paths of sources are relative to */
export const guest = join(root, "guest");

/** flags with which a program stops at its first bad access */
export const sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];

/** the sources that serve file requests */
export const fileSources = [
  "shared/wire",
  ...["files", "file_answer", "file_draft", "file_transfer", "file_tree", "walk", "watch"].map(
    (name) => `files/${name}`,
  ),
];

/** Source names have no ".c": "shared/wire". */
export async function compileGuest(program: string, sources: string[], flags: string[]): Promise<void> {
  const warnings = ["-Wall", "-Wextra", "-Werror"];
  const files = sources.map((name) => `${name}.c`);
  const options = ["-std=gnu11", "-O1", "-g", ...warnings, "-I.", ...flags, ...files];
  const compile = async (to: string) => void (await run("cc", [...options, "-o", to], { cwd: guest }));
  await compiledOnce(program, options.join(" "), compile);
}

/** the guest with sanitizers */
export async function makeSanitizedGuest(program: string): Promise<void> {
  await compiledOnce(program, "the guest with sanitizers", async (to) => {
    await run("make", ["-s", "-C", guest, `BUILD=${to}.build`, "sanitize"]);
    await cp(`${to}.build/sandkeep-guest-sanitize`, to);
  });
}

/** puts what `compile` makes of a description's program there; it is compiled once in a run, and then copied */
async function compiledOnce(program: string, what: string, compile: (to: string) => Promise<void>): Promise<void> {
  const shared = runFolder();
  if (shared === undefined) return compile(program);
  const name = createHash("sha256").update(what).digest("hex").slice(0, 16);
  const original = join(shared, `program-${name}`);
  await madeOnce(original, () => compile(original));
  await cp(original, program);
}
