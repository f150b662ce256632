/** Processes of ours that outlived an upgrade: they are named, and replaced where nothing depends on them. */

import { spawn } from "node:child_process";
import { appendFileSync, copyFileSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { otherBuilds } from "../src/runtime/linux/other-builds.ts";
import { bootFor } from "./conformance/runtime/host.ts";
import { eventually, tempDir } from "./harness.ts";
import { launcherPid, linuxHost } from "./linux-host.ts";
import { guestBinary } from "./needs.ts";

const host = linuxHost();

test("a launcher of another build goes on while sandboxes need it, which is said, and is replaced afterwards", async () => {
  const guest = join(await tempDir(), "guest");
  copyFileSync(guestBinary, guest);
  appendFileSync(guest, "another build");
  const said: string[] = [];
  const trouble = (error: unknown) => void said.push(String(error));
  const machine = await bootFor(host());
  const before = launcherPid(host());
  const runtime = await host().reopen({ guest, trouble });
  expect(said.join("\n")).toContain(`The launcher (process ${before}) is of another build than this daemon`);
  expect(launcherPid(host())).toBe(before);
  await runtime.machine(machine.id)?.stop();
  said.length = 0;
  await host().reopen({ guest, trouble });
  expect(launcherPid(host())).not.toBe(before);
  expect(said).toEqual([]);
  const next = await bootFor(host());
  expect((await next.files().stat("/")).type).toBe("directory");
  await next.stop();
});

test("an egress process that began before its code was changed is named", async () => {
  const main = join(await tempDir(), "main.mjs");
  writeFileSync(main, "process.stdout.write('up'); setInterval(() => undefined, 1000);");
  const parent = spawn("sh", ["-c", `"$0" "$1" & wait`, process.execPath, main], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  const launcherPid = parent.pid ?? 0;
  const guest = realpathSync(`/proc/${launcherPid}/exe`);
  try {
    await new Promise((resolve) => parent.stdout.once("data", resolve));
    const look = () => otherBuilds({ launcherPid, guest, egress: [process.execPath, main] });
    expect(look()).toEqual([]);
    const [sentence = ""] = await eventually("it is named", () => {
      writeFileSync(main, "// another build");
      return look().length > 0 && look();
    });
    const pid = Number(/^The egress process \(process (\d+)\) is older than its program/.exec(sentence)?.[1]);
    process.kill(pid);
    await new Promise((resolve) => parent.once("exit", resolve));
    expect(look().filter((text) => text.includes("egress"))).toEqual([]);
  } finally {
    parent.kill("SIGKILL");
  }
});
