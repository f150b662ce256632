/** Compiles programs of guest/test/ together with the sources of the guest that they exercise. */

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { root } from "./harness.ts";

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
  const options = ["-std=gnu11", "-O1", "-g", ...warnings, "-I.", ...flags, "-o", program];
  await promisify(execFile)("cc", [...options, ...files], { cwd: guest });
}
