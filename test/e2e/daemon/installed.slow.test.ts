/** `npm install --global sandkeep` on each version of Node that a host may have, with the npm that belongs to it. */

import { execFile } from "node:child_process";
import { readlinkSync } from "node:fs";
import { promisify } from "node:util";
import { afterAll, describe, expect, test } from "vitest";
import { startDaemon } from "../../harness/daemon.ts";
import { demand } from "../../runner/needs.ts";
import { hostNpm, install, npmOf, pack, unreachable } from "./installed.ts";

const execute = promisify(execFile);

describe.each([18, 20, 22, 24])("on Node %i", (major) => {
  const undo = new AsyncDisposableStack();
  afterAll(() => undo.disposeAsync());

  test("it installs, examines the host, and serves", { timeout: 600_000 }, async ({ skip }) => {
    demand("root");
    const tarball = await pack(undo, hostNpm());
    const installed = await npmOf(undo, major)
      .then(async (npm) => ({ npm, ...(await install(undo, npm, tarball)) }))
      .catch(unreachable);
    if (typeof installed === "string") return skip(installed);
    const { npm, command, path } = installed;
    const env = { PATH: path };
    expect((await execute("node", ["--version"], { env })).stdout).toMatch(new RegExp(`^v${major}\\.`));
    expect((await execute("sandkeep", ["--help"], { env })).stdout).toContain("Usage: sandkeep <command>");
    const { stdout } = await execute("sandkeep", ["doctor", "--json"], { env }).catch((error) => error);
    expect(Number.parseInt(JSON.parse(stdout).facts.node, 10)).toBeGreaterThanOrEqual(24);
    const daemon = await startDaemon(undo, {}, { command: [command, "serve"], path });
    expect((await fetch(`${daemon.url}/health`)).status).toBe(200);
    // The host's own Node runs it if it can.
    const isHosts = readlinkSync(`/proc/${daemon.pid}/exe`) === npm.command[0];
    expect(isHosts).toBe(major >= 24);
  });
});
