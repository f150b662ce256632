/**
 * The native program, compiled from guest/. In a clone `npm start` compiles it. An installed package compiles it at its
 * first start, because npm cannot rely on a compiler at installation. The result is in the package's folder, so that it
 * is removed with the package, or in the data directory if another user owns that folder.
 */

import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { advice, type HostNeed, missing } from "../../scripts/host-needs.mjs";
import { SandkeepError } from "../core/model/errors.ts";

export interface NativePlaces {
  /** the package's folder */
  root: string;
  dataDir: string;
}

export interface CompileOptions extends NativePlaces {
  /** what compiling needs and this host lacks */
  lacking?: HostNeed[];
  say(sentence: string): void;
}

const name = "sandkeep-guest";

/** its path, if it is compiled */
export function findNativeProgram({ root, dataDir }: NativePlaces): string | undefined {
  return [packageFolder(root), dataFolder(root, dataDir)]
    .map((folder) => join(folder, name))
    .find((path) => existsSync(path));
}

/** its path; compiles it if necessary */
export async function nativeProgram(options: CompileOptions): Promise<string> {
  const { root, dataDir, lacking = missing(["run"]).filter(isForCompiling), say } = options;
  const found = findNativeProgram(options);
  if (found !== undefined) return found;
  if (lacking.length > 0)
    throw new SandkeepError("unsupported", ["Cannot compile the native program", ...advice(lacking)].join("\n"));
  const folder = isOwn(root) ? packageFolder(root) : dataFolder(root, dataDir);
  say(`Compiling the native program into ${folder}, once for this version`);
  await compile(join(root, "guest"), folder);
  return join(folder, name);
}

export function isForCompiling({ why }: HostNeed): boolean {
  return why === "compiles guest/";
}

async function compile(sources: string, folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true, mode: 0o755 });
  // Two processes may compile at the same time; either result is fine.
  const build = mkdtempSync(join(folder, "make-"));
  try {
    await promisify(execFile)("make", ["-s", "-C", sources, `BUILD=${build}`], { encoding: "utf8" });
    renameSync(join(build, name), join(folder, name));
  } catch (cause) {
    const said = cause instanceof Error && "stderr" in cause ? `\n${cause.stderr}`.trimEnd() : "";
    throw new SandkeepError("unsupported", `Cannot compile the native program: make failed${said}`, { cause });
  } finally {
    rmSync(build, { recursive: true, force: true });
  }
}

function packageFolder(root: string): string {
  return join(root, "guest/build");
}

/** a folder for each version of the sources, because it outlives the package */
function dataFolder(root: string, dataDir: string): string {
  const guest = join(root, "guest");
  const hash = createHash("sha256");
  for (const file of readdirSync(guest, { recursive: true, encoding: "utf8" })
    .filter((entry) => /\.[ch]$|^Makefile$/.test(entry))
    .sort())
    hash.update(`${file}\0`).update(readFileSync(join(guest, file)));
  return join(dataDir, "native", `${process.arch}-${hash.digest("hex").slice(0, 16)}`);
}

/** Whether the package's folder is ours: another user could not remove files that root leaves in theirs. */
function isOwn(root: string): boolean {
  if (statSync(root).uid !== process.getuid?.()) return false;
  try {
    mkdirSync(packageFolder(root), { recursive: true });
    return true;
  } catch {
    return false;
  }
}
