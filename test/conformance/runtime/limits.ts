/** Limits and metering of processors, memory, processes and disk: a limit affects only its machine, and is reported. */

import { describe, expect, test } from "vitest";
import type { Process } from "../../../src/core/ports/runtime.ts";
import { bootFor, provesNothingIsLeft, type RuntimeHost } from "./host.ts";
import { python, run, sh, start } from "./run.ts";

const mebibyte = 1 << 20;

export function limitsSuite(host: () => RuntimeHost): void {
  describe("memory", () => {
    provesNothingIsLeft(host);
    const limits = { memory: 96 * mebibyte };
    const hog = "x = []\nwhile True: x.append(b'1' * (1 << 20))";

    test("a command that takes too much is killed and reported; its machine and others go on", async () => {
      const [machine, other] = await Promise.all([bootFor(host(), { limits }), bootFor(host())]);
      const bystander = await start(other, ["sleep", "1000"]);
      expect((await python(machine, hog)).status).toMatchObject({
        code: 137,
        signal: 9,
        outOfMemory: true,
        timedOut: false,
      });
      expect((await run(machine, ["echo", "alive"])).stdout).toBe("alive\n");
      const usage = await machine.usage();
      expect(usage.outOfMemoryKills).toBeGreaterThan(0);
      expect(usage.peakMemory).toBeLessThanOrEqual(limits.memory);
      expect(bystander.exit).toBeUndefined();
      expect((await other.usage()).outOfMemoryKills).toBe(0);
    });

    test("a shell whose child was killed for memory reports it too, but not a kill by hand", async () => {
      const machine = await bootFor(host(), { limits });
      const { status } = await sh(
        machine,
        `python3 -c "${hog.replace("\n", "\\n").replace("x = []\\n", "exec('''x = []\\n")}'''); true"`,
      );
      expect(status).toMatchObject({ outOfMemory: true });
      expect((await sh(machine, "kill -9 $$")).status).toMatchObject({ code: 137, outOfMemory: false });
    });

    test("files in memory count: /dev/shm cannot be larger than the limit", async () => {
      const machine = await bootFor(host(), { limits });
      const { stdout } = await sh(
        machine,
        "head -c 200000000 /dev/zero > /dev/shm/f 2>/dev/null || true; stat -c %s /dev/shm/f; rm /dev/shm/f",
      );
      expect(Number(stdout)).toBeLessThanOrEqual(limits.memory);
      expect((await run(machine, ["echo", "alive"])).stdout).toBe("alive\n");
    });

    test("large files do not count against it: their cached pages are freed", async () => {
      const machine = await bootFor(host(), { limits });
      const { status } = await sh(
        machine,
        "head -c 200000000 /dev/zero > /var/tmp/f && cat /var/tmp/f | wc -c && rm /var/tmp/f",
      );
      expect(status).toMatchObject({ code: 0, outOfMemory: false });
    });
  });

  describe("processes", () => {
    provesNothingIsLeft(host);

    test("cannot exceed the limit, and the machine can be used again afterwards", async () => {
      const machine = await bootFor(host(), { limits: { pids: 32 } });
      const script = `
import os, signal, time
children = []
try:
    for _ in range(200):
        pid = os.fork()
        if pid == 0:
            time.sleep(1000)
        children.append(pid)
except OSError as error:
    print(error.errno)
print(len(children))
for pid in children: os.kill(pid, signal.SIGKILL)`;
      const [errno, count] = (await python(machine, script)).stdout.trim().split("\n").map(Number);
      expect(errno).toBe(11);
      expect(count).toBeLessThan(32);
      expect((await run(machine, ["echo", "alive"])).stdout).toBe("alive\n");
    });

    test("if none is free a command is refused with a clear error, and nothing is left of it", async () => {
      const machine = await bootFor(host(), { limits: { pids: 16 } });
      const sleepers: Process[] = [];
      let refusal: unknown;
      while (refusal === undefined && sleepers.length < 32) {
        await start(machine, ["sleep", "1000"]).then(
          (sleeper) => sleepers.push(sleeper),
          (error: unknown) => {
            refusal = error;
          },
        );
      }
      expect(refusal).toMatchObject({ code: "limit", message: expect.stringMatching(/^Cannot run "sleep": /) });
      expect(machine.processes()).toHaveLength(sleepers.length);
      await Promise.all(sleepers.map((sleeper) => sleeper.signal(9)));
      await Promise.all(sleepers.map((sleeper) => sleeper.exited));
      expect((await run(machine, ["echo", "alive"])).stdout).toBe("alive\n");
    });
  });

  describe("processors", () => {
    provesNothingIsLeft(host);

    test("a machine gets no more processor time than its share", async () => {
      const machine = await bootFor(host(), { limits: { vcpus: 0.25 } });
      const before = await machine.usage();
      const began = performance.now();
      await python(machine, "import time\nend = time.time() + 1.5\nwhile time.time() < end: pass");
      const elapsed = performance.now() - began;
      const used = (await machine.usage()).cpuTime - before.cpuTime;
      expect(used / elapsed).toBeLessThan(0.45);
      expect(used).toBeGreaterThan(50);
    });

    test("programs see as many as they may use", async () => {
      const machine = await bootFor(host(), { limits: { vcpus: 1 } });
      expect((await run(machine, ["nproc"])).stdout).toBe("1\n");
    });
  });

  describe("disk", () => {
    provesNothingIsLeft(host);
    const limits = { disk: 64 * mebibyte };
    const fill = "head -c 200000000 /dev/zero > /var/tmp/fill; echo $?; stat -c %s /var/tmp/fill";

    test("writing stops near the limit, reading, deleting and running go on", async () => {
      const machine = await bootFor(host(), { limits });
      const { stdout, stderr } = await sh(machine, fill);
      const [code, size] = stdout.trim().split("\n").map(Number);
      expect(code).not.toBe(0);
      expect(stderr).toMatch(/quota exceeded|no space left/i);
      expect(size).toBeGreaterThan(limits.disk / 2);
      expect(size).toBeLessThanOrEqual(limits.disk);
      expect((await sh(machine, "head -c 5 /var/tmp/fill | wc -c; rm /var/tmp/fill && echo gone")).stdout).toContain(
        "gone",
      );
    });

    test("a write from outside stops there too, with a typed error", async () => {
      const machine = await bootFor(host(), { limits });
      const blocks = (async function* () {
        for (let n = 0; n < 128; n++) yield Buffer.alloc(mebibyte, "z");
      })();
      await expect(machine.files().write("/var/tmp/f", blocks)).rejects.toMatchObject({ code: "limit" });
      expect((await sh(machine, "rm -f /var/tmp/f; echo alive")).stdout).toBe("alive\n");
    });

    test("files of a snapshot are counted once: a machine booted from it has its own limit", async () => {
      const machine = await bootFor(host(), { limits });
      await sh(machine, "head -c 50000000 /dev/urandom > /var/tmp/a");
      const { snapshot } = await machine.stop({ snapshot: true });
      const copy = await bootFor(host(), { limits, root: { snapshot: snapshot?.id ?? "" } });
      expect((await sh(copy, "head -c 50000000 /dev/zero > /var/tmp/b")).status.code).toBe(0);
      expect((await sh(copy, "head -c 50000000 /dev/zero > /var/tmp/c")).status.code).not.toBe(0);
    });
  });

  describe("usage", () => {
    provesNothingIsLeft(host);

    test("counters only grow, and the end has the last of them", async () => {
      const machine = await bootFor(host());
      const seen = [await machine.usage()];
      for (let n = 0; n < 3; n++) {
        await python(machine, "x = b'1' * (40 << 20); sum(range(3 * 10 ** 6))");
        seen.push(await machine.usage());
      }
      const end = await machine.stop();
      seen.push(end.usage);
      for (let n = 1; n < seen.length; n++) {
        const [before, after] = [seen[n - 1], seen[n]];
        if (!before || !after) throw new Error("A reading is missing");
        expect(after.cpuTime).toBeGreaterThanOrEqual(before.cpuTime);
        expect(after.peakMemory).toBeGreaterThanOrEqual(before.peakMemory);
        expect(after.outOfMemoryKills).toBe(0);
      }
      expect(end.usage.cpuTime).toBeGreaterThan(20);
      expect(end.usage.peakMemory).toBeGreaterThan(40 * mebibyte);
    });

    test("processes are counted as they come and go", async () => {
      const machine = await bootFor(host());
      const idle = (await machine.usage()).processes;
      const sleeper = await start(machine, ["sleep", "1000"]);
      expect((await machine.usage()).processes).toBe(idle + 1);
      await sleeper.signal(9);
      await sleeper.exited;
      expect((await machine.usage()).processes).toBe(idle);
    });

    test("invalid limits are refused", async () => {
      for (const limits of [{ vcpus: 0 }, { memory: -1 }, { pids: 1.5 }, { disk: Number.NaN }]) {
        await expect(bootFor(host(), { limits })).rejects.toMatchObject({ code: "invalid" });
      }
    });
  });
}
