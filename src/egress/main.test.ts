/** The egress process as netd starts it. */

import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { eventually } from "../../test/harness/harness.ts";

test("goes on for all others when one request is more than it can bear", async () => {
  const env = { PATH: process.env.PATH };
  const child = fork(fileURLToPath(new URL("./main.ts", import.meta.url)), { env, execArgv: [], silent: true });
  onTestFinished(() => void child.kill("SIGKILL"));
  let logged = "";
  child.stderr?.on("data", (chunk: Buffer) => {
    logged += chunk.toString();
  });
  const received: unknown[] = [];
  child.on("message", (message) => received.push(message));
  child.once("exit", (code) => received.push(`exit ${code}`));
  child.send({ kind: "nonsense", id: 1, machine: "m0", address: "93.184.216.34", port: 443 });
  // A connection that got lost on its way is answered at once.
  child.send({ kind: "tcp", id: 7, machine: "m0", address: "93.184.216.34", port: 443 });
  await eventually("it answers", () => received.length >= 2);
  expect(received).toEqual(["taken 7 1", "closed 7 1"]);
  await eventually("it logs the error", () => logged.endsWith("\n"));
  expect(JSON.parse(logged)).toMatchObject({
    process: "egress",
    sentence: expect.stringContaining('Cannot understand a message of kind "nonsense"'),
  });
});
