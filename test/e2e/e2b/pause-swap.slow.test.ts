/**
 * A pause moves the memory of a sandbox to the host's swap, and a resume reads it back. Slow and apart from the other
 * tests, because it gives the whole host a swap file for a moment.
 */

import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { Sandbox } from "e2b";
import { expect, test, vi } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { tempDir } from "../../harness/harness.ts";
import { kernelLacks } from "../../runner/excuses.ts";
import { useDaemon } from "./e2b.ts";

const run = promisify(execFile);
const daemon = daemonOfFile();
useDaemon(daemon);

/** megabytes that a program holds */
const held = 200;
const program = `
import hashlib, os
held = os.urandom(${held} << 20)
digest = hashlib.sha256(held).digest()
print("ready")
input()
print(hashlib.sha256(held).digest() == digest)
`;

test("the memory of a paused sandbox goes to swap, and is the same after the resume", async (context) => {
  await using undo = new AsyncDisposableStack();
  const file = join(await tempDir(undo), "swap");
  await writeFile(file, Buffer.alloc((2 * held) << 20));
  await chmod(file, 0o600);
  await run("mkswap", [file]);
  const isOn = await run("swapon", [file]).then(
    () => true,
    () => false,
  );
  context.skip(!isOn, kernelLacks(["swap files"]));
  undo.defer(async () => void (await run("swapoff", [file])));

  const sandbox = await Sandbox.create({ timeoutMs: 600_000 });
  await sandbox.files.write("hold.py", program);
  const background = { background: true, stdin: true, timeoutMs: 0 } as const;
  const command = await sandbox.commands.run("python3 -u hold.py", background);
  await vi.waitFor(() => expect(command.stdout).toBe("ready\n"), { timeout: 60_000 });
  const before = freeSwap();
  await sandbox.pause();
  await vi.waitFor(() => expect(before - freeSwap()).toBeGreaterThan(held / 2), { timeout: 120_000 });
  const resumed = await Sandbox.connect(sandbox.sandboxId);
  const again = await resumed.commands.connect(command.pid);
  await resumed.commands.sendStdin(command.pid, "\n");
  expect((await again.wait()).stdout).toBe("True\n");
  await resumed.kill();
}, 300_000);

/** megabytes */
function freeSwap(): number {
  return Number(/^SwapFree:\s+(\d+) kB$/m.exec(readFileSync("/proc/meminfo", "utf8"))?.[1] ?? 0) >> 10;
}
