/** Tests of the freezer of each version of cgroups on this host, with processes of the test's own, and of reclaiming. */

import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { eventually } from "../../../../test/harness/harness.ts";
import { demand } from "../../../../test/runner/needs.ts";
import { killProcesses, type MachineCgroup } from "../host/cgroup.ts";
import { canFreeze, freeze, isFrozen } from "./freezer.ts";
import { reclaimMemory } from "./memory-reclaim.ts";

const mounts = readFileSync("/proc/self/mounts", "utf8")
  .split("\n")
  .map((line) => line.split(" "));
const trees = {
  unified: mounts.find(([, , type]) => type === "cgroup2")?.[1],
  freezer: mounts.find(([, , type, options]) => type === "cgroup" && options?.split(",").includes("freezer"))?.[1],
};

/** a cgroup with one process that works all the time */
async function busyCgroup(kind: keyof typeof trees) {
  const folder = join(trees[kind] ?? "", `sandkeep-test-${process.pid}-${kind}`);
  mkdirSync(folder);
  const child = spawn("sh", ["-c", "while :; do :; done"], { stdio: "ignore" });
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const none = join(tmpdir(), "no-such-cgroup");
  const cgroup: MachineCgroup = { version: 1, cpu: none, memory: none, pids: none, [kind]: folder };
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await freeze(cgroup, false);
    await ended;
    await eventually("an empty cgroup", () => {
      rmdirSync(folder);
      return true;
    });
  });
  writeFileSync(join(folder, "cgroup.procs"), String(child.pid));
  return { cgroup, child, ended };
}

function ticks(pid = 0): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return Number(fields[11]) + Number(fields[12]);
}

for (const kind of (["unified", "freezer"] as const).filter((each) => trees[each] !== undefined)) {
  describe(`the freezer of cgroup ${kind === "unified" ? "v2" : "v1"}`, () => {
    test("stops every process, is seen by others, and lets a frozen process be killed", async () => {
      demand("root");
      const { cgroup, child, ended } = await busyCgroup(kind);
      expect([canFreeze(cgroup), isFrozen(cgroup)]).toEqual([true, false]);
      await freeze(cgroup, true);
      expect(isFrozen(cgroup)).toBe(true);
      const before = ticks(child.pid);
      await freeze(cgroup, true);
      expect(ticks(child.pid)).toBe(before);
      await freeze(cgroup, false);
      expect(isFrozen(cgroup)).toBe(false);
      await eventually("it works again", () => ticks(child.pid) > before);
      await freeze(cgroup, true);
      child.kill("SIGKILL");
      killProcesses(cgroup);
      await ended;
    });
  });
}

test("a host without a freezer cannot freeze", () => {
  const none = join(tmpdir(), "no-such-cgroup");
  const cgroup: MachineCgroup = { version: 1, cpu: none, memory: none, pids: none };
  expect([canFreeze(cgroup), isFrozen(cgroup)]).toEqual([false, false]);
  expect(canFreeze({ ...cgroup, unified: none })).toBe(false);
});

describe("the memory of a paused machine", () => {
  const swap = "SwapTotal:  2048 kB\nSwapFree:     1024 kB\n";

  function memoryFolder(): string {
    const folder = mkdtempSync(join(tmpdir(), "sandkeep-reclaim-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    return folder;
  }

  test("stays where it is on a host without room in its swap", () => {
    const memory = memoryFolder();
    const cgroup: MachineCgroup = { version: 2, unified: memory, cpu: memory, memory, pids: memory };
    expect(reclaimMemory(cgroup, 1 << 30, swap.replace("1024 kB", "0 kB"))).toBeUndefined();
    expect(existsSync(join(memory, "memory.swap.max"))).toBe(false);
  });

  test("may go to the swap up to its limit on v2, and no more once it goes on", async () => {
    const memory = memoryFolder();
    const cgroup: MachineCgroup = { version: 2, unified: memory, cpu: memory, memory, pids: memory };
    const reclaim = reclaimMemory(cgroup, 1 << 30, swap);
    await reclaim?.done;
    expect(readFileSync(join(memory, "memory.swap.max"), "utf8")).toBe(String(1 << 30));
    expect(readFileSync(join(memory, "memory.reclaim"), "utf8")).toBe(String(64 << 20));
    reclaim?.stop();
    await expect.poll(() => readFileSync(join(memory, "memory.swap.max"), "utf8")).toBe("0");
  });

  test("is requested as a whole on v1", async () => {
    const memory = memoryFolder();
    await reclaimMemory({ version: 1, cpu: memory, memory, pids: memory }, 1 << 30, swap)?.done;
    expect(readFileSync(join(memory, "memory.force_empty"), "utf8")).toBe("0");
  });
});
