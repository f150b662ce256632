/** Errors that nothing in the daemon waits for, in a process of their own. */

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const program = `
  import { outliveMishaps } from ${JSON.stringify(join(import.meta.dirname, "mishaps.ts"))};
  outliveMishaps((error) => console.log(error.message, error.stack.includes("lostWork")));
  async function lostWork() { throw new Error("no room"); }
  lostWork();
  setTimeout(function lostWork() { throw new Error("no disk"); }, 1);
  setTimeout(() => console.log("goes on"), 20);`;

test("errors that nothing waits for are said with their place, and end no daemon", async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", program]);
  const said = "Background work failed, and the daemon goes on:";
  expect(stdout).toBe(`${said} no room true\n${said} no disk true\ngoes on\n`);
});
