/** Compiling the native program: what an interrupted compilation leaves behind. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { eventually, tempDir } from "../../test/harness/harness.ts";
import { demand } from "../../test/runner/needs.ts";
import { nativeProgram } from "./native-program.ts";

beforeAll(() => demand("the command make"));

/** goes on for as long as the process that started it, whose id is in the folder's name */
const slow =
  "all:\n\tmkdir -p $(BUILD)/begun; while [ -d /proc/$(word 2,$(subst -, ,$(notdir $(BUILD)))) ]; do sleep 0.05; done\n";
const quick = "all:\n\techo compiled > $(BUILD)/sandkeep-guest\n";

test("a signal ends the compilation, and leaves nothing of it", async () => {
  const { root, built, child, stderr } = await compiling();
  process.kill(child.pid ?? 0, "SIGTERM");
  const [code] = await once(child, "exit");
  expect(await stderr).toContain("Cannot compile the native program: SIGTERM ended it");
  expect([code, built()]).toEqual([1, []]);
  expect(readdirSync(root)).toEqual(["guest"]);
});

test("the next compilation removes what a killed one has left, and not what another one needs", async () => {
  const { root, built, child } = await compiling();
  process.kill(child.pid ?? 0, "SIGKILL");
  await once(child, "exit");
  expect(built()).toEqual([expect.stringMatching(`^make-${child.pid}-`)]);
  const other = `make-${process.pid}-abcdef`;
  await mkdir(join(root, "guest/build", other));
  await mkdir(join(root, "guest/build/make-AbCd12"));
  await writeFile(join(root, "guest/Makefile"), quick);
  const path = await nativeProgram({ root, dataDir: root, lacking: [], say: () => undefined });
  expect(readFileSync(path, "utf8")).toBe("compiled\n");
  expect(built().sort()).toEqual([other, "sandkeep-guest"]);
});

/** a process that compiles and has come to its first file */
async function compiling() {
  const root = await tempDir();
  await mkdir(join(root, "guest"));
  await writeFile(join(root, "guest/Makefile"), slow);
  const script = `
    import { nativeProgram } from ${JSON.stringify(join(import.meta.dirname, "native-program.ts"))};
    const options = { root: ${JSON.stringify(root)}, dataDir: ${JSON.stringify(root)}, lacking: [], say() {} };
    await nativeProgram(options);`;
  const args = ["--input-type=module-typescript", "-e", script];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "pipe"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const stderr = text(child.stderr);
  const folder = join(root, "guest/build");
  const built = () => readdirSync(folder);
  await eventually("the compilation has begun", () => {
    return existsSync(folder) && built().some((name) => existsSync(join(folder, name, "begun")));
  });
  return { root, built, child, stderr };
}
