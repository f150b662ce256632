/** npm inside a sandbox of the default image installs as people expect, and prints nothing that looks like an error. */

import { Sandbox } from "@vercel/sandbox";
import { beforeAll, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { credentials } from "../clients.ts";
import { redirectThisProcess } from "../redirected-process.ts";

const daemon = daemonOfFile();
beforeAll(() => redirectThisProcess(daemon()));

test("npm runs install scripts without a warning, and does not suggest a newer release", async () => {
  const sandbox = await Sandbox.create({ ...credentials(daemon()), persistent: false });
  const description = { name: "dep", version: "1.0.0", scripts: { postinstall: "echo ran > ran.txt" } };
  await sandbox.writeFiles([
    { path: "dep/package.json", content: JSON.stringify(description) },
    { path: "app/package.json", content: "{}" },
  ]);
  const script = `cd app && npm pack --silent ../dep >/dev/null && npm install --offline ./dep-1.0.0.tgz >/dev/null
    cat node_modules/dep/ran.txt && npm config get update-notifier`;
  for (const sudo of [false, true]) {
    const command = await sandbox.runCommand({ cmd: "sh", args: ["-ec", script], sudo });
    expect([await command.stdout(), await command.stderr()]).toEqual(["ran\nfalse\n", ""]);
    await sandbox.runCommand({ cmd: "rm", args: ["-rf", "app/node_modules", "app/package-lock.json"], sudo });
  }
  // The plain user may also replace what came with Node.
  const global = "npm uninstall --global corepack >/dev/null && ls $(npm root --global)";
  const left = await sandbox.runCommand("sh", ["-ec", global]);
  expect([await left.stdout(), await left.stderr()]).toEqual(["npm\npnpm\n", ""]);
  await sandbox.delete();
});

test("npm gives up within seconds if no registry can be reached", async () => {
  const sandbox = await Sandbox.create({ ...credentials(daemon()), persistent: false, networkPolicy: "deny-all" });
  const command = await sandbox.runCommand({ cmd: "npm", args: ["install", "--loglevel=http", "left-pad"] });
  expect(command.exitCode).not.toBe(0);
  expect(await command.stderr()).toMatch(/attempt 1 failed .*\n.*attempt 2 failed/);
  const settings = await sandbox.runCommand("npm", ["config", "get", "fetch-retry-mintimeout", "fetch-retry-factor"]);
  expect(await settings.stdout()).toBe("fetch-retry-mintimeout=1000\nfetch-retry-factor=3\n");
  await sandbox.delete();
});
