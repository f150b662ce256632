/** Errors that no code in the daemon catches, in a process of their own. */

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const program = `
  import { logUncaughtErrors, restart } from ${JSON.stringify(join(import.meta.dirname, "uncaught-errors.ts"))};
  if (process.env.AGAIN) console.log("again", process.pid, process.argv.slice(1));
  else {
    console.log("first", process.pid);
    const broken = logUncaughtErrors((error) => console.log(error.message, error.stack.includes("lostWork")));
    async function lostWork() { throw new Error("no room"); }
    lostWork();
    setTimeout(() => {
      console.log("continues");
      setTimeout(function lostWork() { throw new Error("no disk"); }, 1);
    }, 1);
    await broken;
    const { STOPS: stops, ...env } = process.env;
    const asked = new Promise((resolve) => stops && resolve());
    const stop = async () => console.log("stopped");
    await restart({ stop, asked, args: ["with", "arguments"], env: { ...env, AGAIN: "1" }, uptime: 60_000 });
    console.log("ended");
  }`;

const run = async (env = {}) =>
  (await promisify(execFile)(process.execPath, ["--input-type=module", "-e", program], { env })).stdout;

test("the daemon logs failed background work and continues, and starts again after an uncaught exception", async () => {
  const stdout = await run();
  const pid = /first (\d+)/.exec(stdout)?.[1];
  expect(stdout).toBe(`first ${pid}
Background work failed, and the daemon continues: no room true
continues
The daemon failed, and starts again: no disk true
stopped
again ${pid} [ 'with', 'arguments' ]
`);
});

test("a daemon that is asked to stop while it fails does not start again", async () => {
  expect(await run({ STOPS: "1" })).toMatch(/stopped\nended\n$/);
});
