/** Sandboxes for the egress benchmarks, made by the vendor's own SDK, and the programs that run in them. */

import { Sandbox } from "@vercel/sandbox";
import { accessTo, type Policy } from "../../test/e2e/clients.ts";
import type { TestDaemon } from "../../test/harness/daemon.ts";
import { webAddress } from "../../test/internet/internet-names.ts";

export function create(daemon: TestDaemon, networkPolicy: Policy): Promise<Sandbox> {
  return Sandbox.create({ ...accessTo(daemon), persistent: false, timeout: 3_600_000, networkPolicy });
}

export async function outputOf(sandbox: Sandbox, [name = "", ...args]: string[]): Promise<string> {
  const command = await sandbox.runCommand(name, args);
  if (command.exitCode !== 0) throw new Error(`${name} ended with ${command.exitCode}: ${await command.stderr()}`);
  return command.stdout();
}

/** a program for Node that prints the ms of 20 requests, each on its own connection, after one that does not count */
export const requests = `
const https = require("node:https");
const options = { host: "${webAddress}", port: 8443, servername: "web.test", path: "/", headers: { host: "web.test:8443" }, agent: false, rejectUnauthorized: false };
const ask = () => new Promise((resolve, reject) => {
  const start = performance.now();
  https.get(options, (response) => response.resume().on("end", () => resolve(performance.now() - start))).on("error", reject);
});
(async () => {
  await ask();
  const took = [];
  // Where a request takes a second, a few are enough.
  const end = performance.now() + 4000;
  while (took.length < 20 && performance.now() < end) took.push(await ask());
  console.log(JSON.stringify(took));
})();`;

/** the durations that the program printed */
export function requestTimes(output: string): number[] {
  return JSON.parse(output);
}
