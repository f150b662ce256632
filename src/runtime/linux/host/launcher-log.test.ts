/** Lines of the processes beside the daemon, as its log gets them. */

import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { tempDir } from "../../../../test/harness/harness.ts";
import { LauncherLog } from "./launcher-log.ts";

async function follow(before?: string) {
  const path = join(await tempDir(), "launcher.log");
  if (before !== undefined) writeFileSync(path, before);
  const reported: { message: string; process?: string; stack?: string; warning?: true }[] = [];
  const log = new LauncherLog(path, {
    logError(error, about) {
      const { message, stack } = error as Error;
      reported.push({ message, ...about, ...(stack?.startsWith("at ") && { stack }) });
    },
    warn: (message, about) => void reported.push({ message, ...about, warning: true }),
  });
  onTestFinished(() => log.close());
  return { path, log, reported };
}

test("what is written while a daemon runs is reported once, line by line, with its process where the line says it", async () => {
  const { path, log, reported } = await follow("of another daemon's time\n");
  appendFileSync(path, 'Cannot serve machine "x": gone\n\n{"process":"egress","sentence":"Cannot go on","stack":"at a');
  log.readNew();
  log.readNew();
  expect(reported).toEqual([{ message: 'Cannot serve machine "x": gone', process: "launcher" }]);
  appendFileSync(path, '.ts"}\n{"no":1}\n{"process":"netd","level":"warn","sentence":"It ended"}\n');
  log.readNew();
  expect(reported.slice(1)).toEqual([
    { message: "Cannot go on", process: "egress", stack: "at a.ts" },
    { message: '{"no":1}', process: "launcher" },
    { message: "It ended", process: "netd", warning: true },
  ]);
});

test("a file that is not there yet, and one that was emptied, are read from their beginning", async () => {
  const { path, log, reported } = await follow();
  writeFileSync(path, "first\n");
  log.readNew();
  writeFileSync(path, "");
  log.readNew();
  writeFileSync(path, "second\n");
  log.readNew();
  expect(reported.map(({ message }) => message)).toEqual(["first", "second"]);
});

test("of a flood a few lines are heard, and how many more there are", async () => {
  const { path, log, reported } = await follow("");
  appendFileSync(path, "again\n".repeat(100));
  log.readNew();
  expect(reported).toHaveLength(21);
  expect(reported.at(-1)?.message).toBe(`80 more lines are in "${path}"`);
});
