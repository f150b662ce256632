/** Tests of how a run ends: its last line, which programs read, and the reasons that skipped tests need. */

import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { root, tempDir } from "../harness/harness.ts";
import { closingLine } from "./reporter.ts";

test("the closing line counts, and mentions skipped tests only if there are any", () => {
  expect(closingLine({ passed: 3, failed: 0, skipped: 0 })).toBe("3 passed, 0 failed");
  expect(closingLine({ passed: 3, failed: 1, skipped: 2 })).toBe("3 passed, 1 failed, 2 skipped");
});

const passing = 'test("passes", () => {});\n';
const excused = 'test("lacks", (context) => context.skip("the kernel lacks cgroup v2"));\n';

test("a run with excused skips succeeds, and says how many there were and why", async () => {
  const run = await runOf(passing + excused + excused);
  expect(run.lines.slice(-2)).toEqual(["2 skipped: the kernel lacks cgroup v2", "1 passed, 0 failed, 2 skipped"]);
  expect(run.status).toBe(0);
});

test.each([
  ["without a reason", 'test.skip("waits", () => {});\n', "no reason given"],
  ["for a program", 'test("waits", (context) => context.skip("needs curl"));\n', "needs curl"],
])("a run with a test that is skipped %s fails", async (_, skipping, reason) => {
  const run = await runOf(passing + excused + skipping);
  expect(run.lines.at(-1)).toBe("1 passed, 1 failed, 1 skipped");
  expect(run.lines.at(-3)).toContain(`FAIL own.test.ts: waits: skipped (${reason})`);
  expect(run.status).toBe(1);
});

test("the tests of a failed hook did not pass, and only Vitest reports it", async () => {
  const run = await runOf(`beforeAll(() => { throw new Error("no fixture"); });\n${passing}`);
  expect(run.lines.at(-1)).toMatch(/^0 passed, [1-9]\d* failed$/);
  expect(run.lines.join("\n")).not.toContain("no reason given");
  expect(run.status).toBe(1);
});

test("choosing tests by name does not count as skipping", async () => {
  const run = await runOf(passing + excused, "-t", "passes");
  expect(run.lines.at(-1)).toBe("1 passed, 0 failed, 1 skipped");
  expect(run.status).toBe(0);
});

test("the failed files are listed for a program that runs them again, unless something else failed too", async () => {
  const failing = 'test("fails", () => { throw new Error("no"); });\n';
  expect((await runOf(passing + failing)).failedFiles).toBe("own.test.ts\n");
  expect((await runOf(passing)).failedFiles).toBe("");
  const failingOutside = `${passing + failing}setTimeout(() => { throw new Error("later"); });\n`;
  expect((await runOf(failingOutside)).failedFiles).toBeUndefined();
});

test("a program that a signal ended is reported with the signal", async () => {
  const killing = 'await promisify(execFile)("sh", ["-c", "kill -9 $$"]);';
  const imports = 'import { execFile } from "node:child_process";\nimport { promisify } from "node:util";\n';
  const run = await runOf(`${imports}test("runs it", async () => { ${killing} });\n`);
  expect(run.lines.slice(-2)).toEqual(["FAIL own.test.ts: runs it: ended by SIGKILL", "0 passed, 1 failed"]);
});

interface Run {
  status: number | null;
  lines: string[];
  failedFiles: string | undefined;
}

/** runs a file of tests with our reporter, in a process of its own */
async function runOf(text: string, ...options: string[]): Promise<Run> {
  const directory = await tempDir();
  const config = `import { ClosingLine } from ${JSON.stringify(join(root, "test/runner/reporter.ts"))};
    export default { test: { globals: true, reporters: ["default", new ClosingLine()] } };`;
  await writeFile(join(directory, "vitest.config.ts"), config);
  await writeFile(join(directory, "own.test.ts"), text);
  const list = join(directory, "failed");
  const args = [join(root, "node_modules/vitest/vitest.mjs"), "run", "--root", directory, ...options];
  const { status, stdout } = spawnSync(process.execPath, args, {
    encoding: "utf8",
    env: { ...process.env, FAILED_FILES: list },
  });
  const failedFiles = existsSync(list) ? readFileSync(list, "utf8") : undefined;
  return { status, lines: stdout.trimEnd().split("\n"), failedFiles };
}
