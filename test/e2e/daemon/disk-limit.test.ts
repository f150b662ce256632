/** The disk limit of a sandbox: sessions count together, a fork counts for itself, and a full one can be resumed. */

import { expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { type AnySandbox, accessTo, sdks } from "../clients.ts";

const { Sandbox } = sdks["3.5.0"];
const mebibyte = 1 << 20;
const daemon = daemonOfFile({ SANDKEEP_MAX_DISK: "100M" });

test("a sandbox cannot hold more than its limit, however many sessions it writes in", async () => {
  const name = "full";
  const first = await Sandbox.create({ ...accessTo(daemon()), name });
  expect(await fill(first, "a", 70)).toBe(70 * mebibyte);
  await first.stop();
  const second = await Sandbox.get({ ...accessTo(daemon()), name, resume: true });
  expect(await fill(second, "b", 70)).toBeLessThanOrEqual(30 * mebibyte);
  await second.stop();
  const third = await Sandbox.get({ ...accessTo(daemon()), name, resume: true });
  expect(await fill(third, "c", 10)).toBeLessThan(2 * mebibyte);
  const said = await third.runCommand("sh", ["-c", "head -c 10M /dev/zero > /tmp/d"]);
  expect(await said.stderr()).toMatch(/quota exceeded|no space left/i);
  const fork = await Sandbox.fork({ ...accessTo(daemon()), sourceSandbox: name, name: "its-fork" });
  expect(await fill(fork, "e", 70)).toBe(70 * mebibyte);
  await Promise.all([third.delete(), fork.delete()]);
});

/** size of a file after a program has written as much as it can */
async function fill(sandbox: Pick<AnySandbox, "runCommand">, name: string, mebibytes: number): Promise<number> {
  const script = `head -c ${mebibytes}M /dev/zero > /tmp/${name}; stat -c %s /tmp/${name}`;
  return Number(await (await sandbox.runCommand("sh", ["-c", script])).stdout());
}
