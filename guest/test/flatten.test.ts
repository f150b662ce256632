/** Flattened layers mean to the kernel what the layers meant that they replace. */

import { execFile } from "node:child_process";
import { existsSync, linkSync, lstatSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { compileGuest, sanitizers } from "../../test/harness/guest/guest-program.ts";
import { root, tempDir } from "../../test/harness/harness.ts";
import { flattenSources } from "../../test/harness/images/layer-tools.ts";
import { needs } from "../../test/runner/needs.ts";

const run = promisify(execFile);
let programs = "";
let tool = "";

beforeAll(async () => {
  programs = await mkdtemp(join(tmpdir(), "sandkeep-test-"));
  tool = join(programs, "flatten_main");
  await compileGuest(tool, flattenSources, sanitizers);
});
afterAll(() => rm(programs, { recursive: true, force: true }));

describe("chains of layers that the kernel made", () => {
  test.each(["plain", "btrfs"])("show the same files when any range of them is flattened (%s)", async (kind) => {
    const directory = await tempDir();
    const script = join(root, "guest/test/flatten_random.ts");
    const args = ["-m", "--propagation", "private", process.execPath, script, tool, directory, "7", "12", kind];
    const { stdout } = await run("unshare", args, { timeout: 110_000 });
    expect(stdout).toMatch(/^\d{3,} operations, \d{2,} comparisons$/m);
  });
});

describe("a hostile layer", () => {
  test("with directories deeper than any path is flattened", async (context) => {
    needs(context, "root");
    const at = await tempDir();
    const layer = join(at, "layer");
    const out = join(at, "out");
    mkdirSync(layer);
    mkdirSync(out);
    // Node deletes by path and could not.
    onTestFinished(async () => void (await run("rm", ["-rf", layer, out])));
    await run(process.execPath, ["-e", deepTree(3000)], { cwd: layer });
    await run(tool, ["flatten", out, layer]);
    const { stdout } = await run(process.execPath, ["-e", depthOf], { cwd: out });
    expect(stdout.trim()).toBe("3000 bottom");
  });

  test("with a redirect that is none is refused with a sentence", async (context) => {
    needs(context, "root");
    const at = await tempDir();
    for (const redirect of ["/a/../../etc", "a/b", "..", "/", "//a"]) {
      const layer = join(at, "layer");
      mkdirSync(join(layer, "moved"), { recursive: true });
      mkdirSync(join(at, "out"));
      await run(tool, ["xattr", join(layer, "moved"), "trusted.overlay.redirect", redirect]);
      await expect(run(tool, ["flatten", join(at, "out"), layer, layer])).rejects.toThrow(
        'Cannot flatten layers: "moved" cannot be looked up: Invalid argument',
      );
      rmSync(layer, { recursive: true });
      rmSync(join(at, "out"), { recursive: true });
    }
  });

  test("whose symlinks and redirects lead through a symlink reaches nothing outside", async (context) => {
    needs(context, "root");
    const at = await tempDir();
    const [above, below, out] = ["above", "below", "out"].map((name) => join(at, name)) as [string, string, string];
    mkdirSync(join(above, "moved"), { recursive: true });
    mkdirSync(below);
    mkdirSync(out);
    mkdirSync(join(at, "outside/secret"), { recursive: true });
    writeFileSync(join(at, "outside/secret/file"), "secret");
    await run("ln", ["-s", join(at, "outside"), join(below, "way")]);
    await run(tool, ["xattr", join(above, "moved"), "trusted.overlay.redirect", "/way/secret"]);
    await run(tool, ["flatten", out, above, below]);
    expect(readdirSync(join(out, "moved"))).toEqual([]);
    expect(lstatSync(join(out, "way")).isSymbolicLink()).toBe(true);
  });
});

test("files are linked, not copied, and names of one inode stay names of one", async (context) => {
  needs(context, "root");
  const at = await tempDir();
  mkdirSync(join(at, "layer"));
  mkdirSync(join(at, "out"));
  writeFileSync(join(at, "layer/one"), "x");
  linkSync(join(at, "layer/one"), join(at, "layer/two"));
  await run(tool, ["flatten", join(at, "out"), join(at, "layer")]);
  const inodes = ["layer/one", "out/one", "out/two"].map((name) => statSync(join(at, name)).ino);
  expect(new Set(inodes).size).toBe(1);
});

test("nothing is kept for layers below one that says there are none", async (context) => {
  needs(context, "root");
  const at = await tempDir();
  for (const name of ["top", "bottom", "never", "out"]) mkdirSync(join(at, name));
  writeFileSync(join(at, "top/file"), "x");
  writeFileSync(join(at, "never/other"), "x");
  await run(tool, ["whiteout", join(at, "top/gone")]);
  await run(tool, ["xattr", join(at, "bottom"), "trusted.overlay.opaque", "y"]);
  await run(tool, ["flatten", join(at, "out"), join(at, "top"), join(at, "bottom"), join(at, "never")]);
  expect(readdirSync(join(at, "out"))).toEqual(["file"]);
});

test("too many layers are refused, and nothing is made", async () => {
  const at = await tempDir();
  const layers = Array.from({ length: 257 }, () => at);
  await expect(run(tool, ["flatten", at, ...layers])).rejects.toThrow("Argument list too long");
  expect(existsSync(join(at, "fs"))).toBe(false);
});

/** a script that makes directories inside each other without ever naming more than one */
function deepTree(depth: number): string {
  return `const fs = require("fs");
    for (let i = 0; i < ${depth}; i++) { fs.mkdirSync("d"); process.chdir("d"); }
    fs.writeFileSync("bottom", "");`;
}

const depthOf = `const fs = require("fs");
  let depth = 0;
  for (; fs.existsSync("d"); depth++) process.chdir("d");
  console.log(depth, ...fs.readdirSync("."));`;
