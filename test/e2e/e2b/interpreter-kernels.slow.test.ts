/**
 * Kernels of other languages, unmodified: Debian's for R, and JJava of PyPI for Java, in an image that has both. Slow,
 * because it needs a package mirror and minutes.
 */

import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { Sandbox } from "@e2b/code-interpreter";
import { beforeAll, beforeEach, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { sandkeepCommand } from "../../harness/package.ts";
import { outOfReach } from "../../runner/excuses.ts";
import { demand } from "../../runner/needs.ts";
import { sandboxOf, useDaemon } from "./e2b.ts";

const run = promisify(execFile);
const daemon = daemonOfFile({ SANDKEEP_POOL_HOT: "0" });
useDaemon(daemon);
let packages = "";
let isReached = true;

beforeAll(async () => {
  demand("root", "the guest binary", "the command mmdebstrap", "the command pip3");
  const { dataDir, runDir } = daemon();
  packages = mkdtempSync(join(tmpdir(), "packages-"));
  const places = ["--data-dir", dataDir, "--run-dir", runDir];
  const build = ["image", "build", "code-interpreter", "--include", "r-cran-irkernel,default-jdk-headless"];
  await Promise.all([
    run(sandkeepCommand(), [...build, ...places]),
    run("pip3", ["download", "--no-deps", "--dest", packages, "jjava==1.0a8"]),
  ]).catch((error: Error) => {
    isReached = !/Could not (resolve|connect|find)|Failed to fetch|Temporary failure/i.test(error.message);
    if (isReached) throw error;
  });
  return () => rmSync(packages, { recursive: true });
}, 1_800_000);
beforeEach((context) => context.skip(!isReached, outOfReach("Debian's archive")));

const made = sandboxOf(() => Sandbox.create({ timeoutMs: 1_200_000 }));
const sandbox = () => made() as Sandbox;

test("R runs with its state, its plots, its errors and an interrupt", async () => {
  const r = (code: string, timeoutMs = 120_000) => sandbox().runCode(code, { language: "r", timeoutMs });
  expect((await r("x <- c(1, 2, 3); cat('out\\n'); mean(x)")).logs.stdout.join("")).toBe("out\n");
  // R's kernel displays values instead of returning them, so none is the main result.
  expect((await r("sum(x)")).results[0]?.text).toContain("6");
  expect((await r("plot(x)")).results[0]?.png).toMatch(/^iVBOR/);
  expect((await r("data.frame(a = x)")).results[0]?.html).toContain("<table");
  expect((await r("stop('no')")).error?.value).toContain("no");
  const envs = { OWN: 'ü "q" \\', HOME: "/other" };
  const shown = (options: object) =>
    sandbox().runCode("cat(Sys.getenv(names(c(OWN = 1, HOME = 2))))", { language: "r", ...options });
  expect((await shown({ envs })).logs.stdout.join("")).toBe('ü "q" \\ /other');
  expect((await shown({})).logs.stdout.join("")).toBe(" /home/user");
  await expect(r("repeat Sys.sleep(0.01)", 1000)).rejects.toMatchObject({ name: "TimeoutError" });
  expect((await r("x[2]")).results[0]?.text).toContain("2");
});

test("Java runs with its state, its errors and an interrupt", async () => {
  const [name = ""] = readdirSync(packages);
  await sandbox().files.write(`/tmp/${name}`, new Blob([readFileSync(join(packages, name))]));
  await sandbox().commands.run(`pip install --user --no-deps --break-system-packages /tmp/${name}`);
  const java = (code: string, timeoutMs = 120_000) => sandbox().runCode(code, { language: "java", timeoutMs });
  expect(await java('int x = 20; System.out.println("out"); x + 1')).toMatchObject({
    ...{ text: "21", logs: { stdout: ["out\n"] } },
  });
  expect((await java("x * 2")).text).toBe("40");
  expect((await java('throw new IllegalStateException("no")')).error?.value).toContain("no");
  const property = (options: object) =>
    sandbox().runCode('System.getProperty("OWN")', { language: "java", ...options });
  expect((await property({ envs: { OWN: 'ü "q"' } })).text).toBe('ü "q"');
  expect((await property({})).results).toEqual([]);
  await expect(java("while (true) Thread.sleep(10);", 1000)).rejects.toMatchObject({ name: "TimeoutError" });
  expect((await java("x * 3")).text).toBe("60");
});
