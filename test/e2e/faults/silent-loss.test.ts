/**
 * The host's disk is full for a moment that no check of the daemon sees, and the kernel drops data which it had accepted
 * from a sandbox. A stop is then not acknowledged, the log and the session say why, and acknowledged files stay.
 */

import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type SmallDisk, smallDisk } from "../../disks/small-disk.ts";
import { startDaemon, type TestDaemon } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { raw } from "../clients.ts";
import { create, read, write } from "./kept-files.ts";

const mebibyte = 2 ** 20;
const undo = new AsyncDisposableStack();
let disk: SmallDisk;

beforeAll(async () => {
  disk = await smallDisk(undo, 1400 * mebibyte);
});
afterAll(() => undo.disposeAsync());

test("a loss while no daemon runs is found by the next start", async () => {
  await using mine = new AsyncDisposableStack();
  const daemon = await start(mine, "power");
  const session = await begun(daemon, "first");
  await daemon.kill9();
  loseData(daemon, "first");
  await daemon.start();
  await expectLost(daemon, "first", session);
});

test.each(["power", "process"] as const)(
  "a stop after a loss between two checks is not acknowledged (%s)",
  async (durability) => {
    await using mine = new AsyncDisposableStack();
    const daemon = await start(mine, durability);
    const session = await begun(daemon, "second");
    process.kill(daemon.pid, "SIGSTOP");
    try {
      loseData(daemon, "second");
    } finally {
      process.kill(daemon.pid, "SIGCONT");
    }
    const refused = await stop(daemon, session);
    // The session may be over by now, because the daemon found the loss by itself.
    if (refused.status === 200) expect(refused.json.session.status).toBe("aborted");
    else {
      expect([503, 507]).toContain(refused.status);
      expect(refused.json.error.message).toMatch(/^Cannot .*store/);
    }
    await expectLost(daemon, "second", session);
  },
);

function start(mine: AsyncDisposableStack, durability: "power" | "process"): Promise<TestDaemon> {
  const settings = { SANDKEEP_DISK_RESERVE: "160M", SANDKEEP_DURABILITY: durability };
  return startDaemon(mine, settings, { folder: disk.directory });
}

/** a running sandbox with a file that a stop has acknowledged, and one that is in the kernel's memory only */
async function begun(daemon: TestDaemon, name: string): Promise<string> {
  const session = await create(daemon, name);
  await write(daemon, session, "kept", "acknowledged");
  expect((await stop(daemon, session)).status).toBe(200);
  const { json, text } = await raw(daemon, "GET", `/v2/sandboxes/${name}?resume=true`);
  expect(json.session, text).toBeDefined();
  const body = { command: "sh", args: ["-c", `head -c 20000000 /dev/urandom > lost-${name}`], wait: true };
  const written = await raw(daemon, "POST", `/v2/sandboxes/sessions/${json.session.id}/cmd`, { body });
  expect(written.text).toContain('"exitCode":0');
  return json.session.id;
}

/** fills the disk, has the kernel write the file, frees the disk, and takes the kernel's report of the error */
function loseData(daemon: TestDaemon, name: string): void {
  const store = join(daemon.dataDir, "store");
  const found = execFileSync("find", [join(store, "machines"), "-name", `lost-${name}`], { encoding: "utf8" });
  disk.fill(0);
  expect(() => execFileSync("sync", [found.trim()], { stdio: "ignore" })).toThrow();
  disk.empty();
  execFileSync("sh", ["-c", 'sync --file-system "$1" || true', "sh", store], { stdio: "ignore" });
}

/** the session has not stopped in order, its sandbox has the acknowledged file, and the log names the session */
async function expectLost(daemon: TestDaemon, name: string, session: string): Promise<void> {
  await eventually("the session is over", async () => {
    const { json } = await raw(daemon, "GET", `/v2/sandboxes/sessions/${session}`);
    return json.session.status === "aborted";
  });
  await eventually("it can be used again", async () => (await read(daemon, name, "kept")) === "acknowledged");
  expect(daemon.complaints()).toMatch(/The store ".*" became read-only, or lost what it could not write/);
  expect(daemon.complaints()).toContain(session);
}

function stop(daemon: TestDaemon, session: string) {
  return raw(daemon, "POST", `/v2/sandboxes/sessions/${session}/stop`);
}
