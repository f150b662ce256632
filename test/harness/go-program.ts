/** Programs in Go, which brings its own runtime and no C library: built on the host, to run inside a sandbox. */

import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Machine } from "../../src/core/ports/runtime.ts";
import { demand } from "../runner/needs.ts";
import { root, tempDir } from "./harness.ts";

/** Compiled packages of the standard library, which later runs find. */
const cache = join(root, "node_modules/.cache/go");

/** builds a program and puts it into a machine, executable by all users */
export async function installGo(machine: Machine, path: string, source: string): Promise<void> {
  demand("the command go");
  await using undo = new AsyncDisposableStack();
  const folder = await tempDir(undo);
  await writeFile(join(folder, "a.go"), source);
  const settings = { CGO_ENABLED: "0", GOCACHE: cache, GOTOOLCHAIN: "local", GOPROXY: "off", GOFLAGS: "" };
  const env = { ...process.env, ...settings };
  await promisify(execFile)("go", ["build", "-o", "a", "a.go"], { cwd: folder, env });
  await machine.files().write(path, await readFile(join(folder, "a")), { mode: 0o755, parents: true });
}
