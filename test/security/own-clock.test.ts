/** A sandbox counts its time from its own start, and every source of that time agrees. */

import { execFileSync } from "node:child_process";
import { mkdtemp, readlink, rm, writeFile } from "node:fs/promises";
import { constants, tmpdir, uptime } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Machine } from "../../src/core/ports/runtime.ts";
import { type TestRuntime, withRuntime } from "../harness/machine.ts";
import { guestBinary, needs } from "../runner/needs.ts";
import { begin, firstLine, run, shell, type User, users } from "./inside.ts";

const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());
let host: TestRuntime;
let machine: Machine;
/** times of the request for the machine and of its answer, in seconds since 1970 */
let asked: number;
let booted: number;

beforeAll(async () => {
  host = await withRuntime(undo);
  asked = Date.now() / 1000;
  machine = await host.boot();
  booted = now();
});

const now = () => Date.now() / 1000;
/** the most that a clock of the machine may say */
const age = () => now() - asked;

/** every source of the seconds since boot, each read once; the last is what `ps` shows for PID 1 */
const clocks = `
import ctypes, time, os
info = (ctypes.c_long * 64)()
ctypes.CDLL(None).sysinfo(info)
since = lambda at: time.time() - at
btime = [int(line.split()[1]) for line in open("/proc/stat") if line.startswith("btime")][0]
first = time.monotonic()
print(first, float(open("/proc/uptime").read().split()[0]), info[0], time.clock_gettime(time.CLOCK_BOOTTIME), since(btime),
  os.popen("ps -o etimes= -p 1").read().strip(), time.monotonic())
`;
/** what they say, in seconds; they agree, however long reading them takes: some count whole seconds */
const inside = async (where: Machine, user: User) => {
  const said = (await shell(where, user, `python3 -c '${clocks}'`)).trim().split(" ").map(Number);
  expect(said).toHaveLength(7);
  const [first = 0, last = 0] = [said.at(0), said.at(-1)];
  for (const seconds of said) {
    expect(seconds).toBeGreaterThan(first - 2);
    expect(seconds).toBeLessThan(last + 2);
  }
  return said;
};

const timeNamespace = async (user: User, terminal: boolean) =>
  (
    await run(machine, user, ["readlink", "/proc/self/ns/time"], terminal ? { pty: { rows: 24, columns: 80 } } : {})
  ).out.trim();

describe("with a clock of its own", () => {
  beforeEach((context) => needs(context, "time namespaces"));

  describe.each(users)("to %s inside", (user) => {
    test("every clock counts from the start of the sandbox", async () => {
      const said = await inside(machine, user);
      const most = age();
      for (const seconds of said) {
        expect(seconds).toBeGreaterThanOrEqual(0);
        // btime and sysinfo() are whole seconds
        expect(seconds).toBeLessThan(most + 1);
      }
      expect(Number(await shell(machine, user, "node -p 'os.uptime()'"))).toBeLessThan(age() + 0.01);
      const since = Number(await shell(machine, user, 'date +%s -d "$(uptime -s)"'));
      expect(since).toBeGreaterThan(asked - 2);
      expect(since).toBeLessThan(booted + 2);
    });

    test("ps shows when a process was started, and for how long it has run", async () => {
      const before = now();
      const sleeping = await begin(machine, user, ["sh", "-c", "echo $$; exec sleep 1000"]);
      const pid = (await firstLine(sleeping)).trim();
      const after = now();
      await new Promise((resolve) => setTimeout(resolve, 1500));
      const least = now() - after;
      const [etimes = "", ...lstart] = (await shell(machine, user, `ps -o etimes=,lstart= -p ${pid}`))
        .trim()
        .split(/ +/);
      expect(Number(etimes)).toBeGreaterThan(least - 2);
      expect(Number(etimes)).toBeLessThan(now() - before + 2);
      const started = Date.parse(`${lstart.join(" ")} UTC`) / 1000;
      expect(started).toBeGreaterThan(before - 2.5);
      expect(started).toBeLessThan(after + 2.5);
      await sleeping.signal(9);
    });

    test("a terminal, a command and root are on the same clock, which is not the host's", async () => {
      const own = await readlink("/proc/self/ns/time");
      const all = new Set([
        await timeNamespace(user, false),
        await timeNamespace(user, true),
        await timeNamespace("root", false),
      ]);
      expect([...all]).toEqual([expect.stringMatching(/^time:\[\d+\]$/)]);
      expect([...all]).not.toEqual([own]);
    });

    test("timers that are set by the clock fire on time", async () => {
      const waits = `
import time, threading, select
begin = time.time()
time.sleep(0.2)
threading.Event().wait(0.2)
select.select([], [], [], 0.2)
print(time.time() - begin)
`;
      const took = Number(await shell(machine, user, `python3 -c '${waits}'; timeout 0.2 sleep 60 || true`));
      expect(took).toBeGreaterThan(0.59);
      // One that is set by another clock fires at once, or after the hours that the host runs.
      expect(took).toBeLessThan(60);
    });

    test("the clock cannot be moved", async () => {
      const line =
        "echo monotonic 1000 0 > /proc/self/timens_offsets || echo boottime 1000 0 > /proc/$$/timens_offsets";
      expect((await run(machine, user, ["sh", "-c", line])).code).not.toBe(0);
      expect(Math.max(...(await inside(machine, user)))).toBeLessThan(age() + 1);
    });
  });

  test("a capture and a restart of the daemon leave the clock unchanged", async () => {
    const before = await timeNamespace("1000", false);
    const { id } = await machine.snapshot();
    await host.runtime.snapshots.delete(id);
    const runtime = await host.reopen();
    machine = runtime.machine(machine.id) ?? machine;
    expect(await timeNamespace("1000", false)).toBe(before);
    const least = now() - booted;
    const said = await inside(machine, "1000");
    expect(Math.max(...said)).toBeLessThan(age() + 1);
    expect(Math.min(...said)).toBeGreaterThan(least - 2);
  });

  test("the time limit of a command is kept", async () => {
    const { status } = await run(machine, "1000", ["sleep", "60"], { timeLimit: 300 });
    expect(status).toMatchObject({ timedOut: true });
  });

  test("a machine from the pool has a clock that agrees with its own processes", async () => {
    await using stack = new AsyncDisposableStack();
    const began = now();
    const pooled = await withRuntime(stack, { pool: { hot: 1, warm: 1 } });
    await pooled.runtime.ready();
    const said = await inside(await pooled.boot(), "1000");
    expect(Math.max(...said)).toBeLessThan(now() - began + 1);
  });
});

test("the boot id is the same while the sandbox runs, and differs in the next session", async () => {
  const file = "/proc/sys/kernel/random/boot_id";
  const read = async (from: Machine, user: User) => (await shell(from, user, `cat ${file}`)).trim();
  const first = await read(machine, "1000");
  expect(first).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(first).not.toBe(execFileSync("cat", [file], { encoding: "utf8" }).trim());
  expect(await read(machine, "root")).toBe(first);
  expect((await run(machine, "root", ["sh", "-c", `echo x > ${file}`])).code).not.toBe(0);
  const other = await host.boot();
  expect(await read(other, "1000")).not.toBe(first);
  await other.stop();
});

/** a launcher whose kernel refuses a new time namespace with this error */
const withoutNamespaces = (guest: string, errno: number) => `#!/usr/bin/python3
import ctypes, os, struct, sys
unshare = {"x86_64": 272, "aarch64": 97}[os.uname().machine]
code = [(0x20, 0, 0, 0), (0x15, 0, 3, unshare), (0x20, 0, 0, 16), (0x45, 0, 1, 0x80), (6, 0, 0, 0x50000 + ${errno}), (6, 0, 0, 0x7fff0000)]
text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in code))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(text)))
if ctypes.CDLL(None).prctl(22, 2, program, 0, 0): sys.exit("Cannot install the filter")
os.execv("${guest}", ["${guest}"] + sys.argv[1:])
`;

test.each([
  ["that has no time namespaces", constants.errno.EINVAL],
  ["that may make no more of them", constants.errno.ENOSPC],
])("on a kernel %s the clock is the host's, and ps agrees with it", async (_, errno) => {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "sandkeep-test-"));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const guest = join(folder, "guest");
  await writeFile(guest, withoutNamespaces(guestBinary, errno), { mode: 0o755 });
  const without = await withRuntime(stack, { guest });
  const asked = now();
  const plain = await without.boot();
  const least = uptime();
  const output = (await shell(plain, "1000", `python3 -c '${clocks}'`)).trim().split(" ").map(Number);
  const [age] = output.splice(5, 1);
  for (const seconds of output) {
    expect(seconds).toBeGreaterThan(least - 2);
    expect(seconds).toBeLessThan(uptime() + 2);
  }
  expect(age).toBeLessThan(now() - asked + 2);
});
