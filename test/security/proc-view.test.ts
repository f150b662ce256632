/** /proc shows the sandbox's own memory, processors and load, current and complete, and nothing about neighbours. */

import { execFileSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir, totalmem } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Machine } from "../../src/core/ports/runtime.ts";
import { eventually } from "../harness/harness.ts";
import { type TestRuntime, withRuntime } from "../harness/machine.ts";
import { guestBinary } from "../runner/needs.ts";
import { begin, run, shell, users } from "./inside.ts";

const mebibyte = 1 << 20;
const memory = 512 * mebibyte;

const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());
let host: TestRuntime;
let machine: Machine;

beforeAll(async () => {
  host = await withRuntime(undo);
  machine = await host.boot({ limits: { vcpus: 1, memory } });
});

/** the name, the shell line, and its expected output; scripts/host-needs.mjs has every program of these */
const programs: [name: string, line: string, prints: string][] = [
  ["free's total", "free -b | awk '/^Mem:/ { print $2 }'", String(memory)],
  ["top's total", "top -b -n 1 -E k | awk '$2 == \"Mem\" { print $4 + 0 }'", String(memory / 1024)],
  ["vmstat", "vmstat -s -S k | awk '/total memory/ { print $1 }'", String(Math.floor(memory / 1000))],
  ["Node's os.totalmem", "node -p 'os.totalmem()'", String(memory)],
  ["Node's os.freemem", `node -p 'os.freemem() > 0 && os.freemem() <= ${memory}'`, "true"],
  ["Node's os.cpus", "node -p 'os.cpus().length'", "1"],
  ["the processors of /proc/cpuinfo", "grep -c ^processor /proc/cpuinfo", "1"],
  ["the processors of /proc/stat", "grep -c '^cpu[0-9]' /proc/stat", "1"],
  ["lscpu", "lscpu | awk -F: '/^CPU\\(s\\)/ { print $2 + 0 }'", "1"],
  ["psutil's memory", "python3 -c 'import psutil; print(psutil.virtual_memory().total)'", String(memory)],
  ["uptime", "uptime | grep -c 'load average: 0'", "1"],
  ["swap", "tail -n +2 /proc/swaps | wc -l; awk '/^SwapTotal/ { print $2 }' /proc/meminfo", "0\n0"],
];

describe.each(users)("to %s inside", (user) => {
  test.each(programs)("%s is the sandbox's own", async (_, line, prints) => {
    expect((await shell(machine, user, line)).trim()).toBe(prints);
  });

  test("no file of the view can be changed, removed or unmounted", async () => {
    for (const line of [
      "echo x > /proc/meminfo",
      "chmod 777 /proc/stat",
      "touch /proc/uptime",
      "umount /proc/meminfo",
    ]) {
      expect((await run(machine, user, ["sh", "-c", line])).code, line).not.toBe(0);
    }
    expect(await shell(machine, user, "head -1 /proc/meminfo")).toBe(`MemTotal:         ${memory / 1024} kB\n`);
  });
});

test("memory that a program uses is missing from the free memory at once", async () => {
  const take = `const kept = Buffer.alloc(${200 * mebibyte}, 1); console.log(os.freemem()); console.log(kept.length)`;
  const [free] = (await shell(machine, "1000", `node -e '${take}'`)).split("\n").map(Number);
  expect(free).toBeLessThan(memory - 200 * mebibyte);
  expect(Number(await shell(machine, "1000", "node -p 'os.freemem()'"))).toBeGreaterThan(memory - 150 * mebibyte);
});

test("processor time is visible in /proc/stat and in the load", async () => {
  const other = await host.boot({ limits: { vcpus: 1, memory } });
  const busy = "awk '/^cpu / { print $2 + $4 }' /proc/stat";
  const before = Number(await shell(other, "1000", busy));
  const spinning = await begin(other, "1000", ["sh", "-c", "while :; do :; done"]);
  await eventually("half a second of it", async () => Number(await shell(other, "1000", busy)) - before > 50, {
    everyMs: 250,
  });
  const load = async () => Number((await shell(other, "1000", "cat /proc/loadavg")).split(" ")[0]);
  await eventually("some load", async () => (await load()) > 0.01, { everyMs: 250 });
  await spinning.signal(9);
  await other.stop();
});

test("a file that is read byte by byte is consistent, whatever other readers do meanwhile", async () => {
  const others = await begin(machine, "1000", [
    "sh",
    "-c",
    "while :; do cat /proc/meminfo /proc/stat > /dev/null; done",
  ]);
  const bytewise = await shell(machine, "1000", "dd if=/proc/meminfo bs=1 2>/dev/null");
  await others.signal(9);
  expect(bytewise).toMatch(/^(\S+:\s+\d+( kB)?\n)+$/);
  expect(bytewise.split("\n")).toHaveLength((await shell(machine, "1000", "cat /proc/meminfo")).split("\n").length);
});

test("a thousand open files of the view stop no other reader, and are charged to the sandbox alone", async () => {
  const many = `const fs = require("fs"); const b = Buffer.alloc(64);
    for (let i = 0; i < 1000; i++) { const f = fs.openSync("/proc/cpuinfo"); fs.readSync(f, b); }
    console.log(fs.readFileSync("/proc/meminfo", "utf8").split(/ +/)[1])`;
  expect(await shell(machine, "1000", `node -e '${many}'`)).toBe(`${memory / 1024}\n`);
});

test("a machine whose programs do nothing but read the view can be captured", async () => {
  const other = await host.boot({ limits: { vcpus: 1, memory } });
  const ask = `import os
for _ in range(3): os.fork()
file = os.open("/proc/meminfo", os.O_RDONLY)
while True: os.pread(file, 4096, 0), os.statvfs("/")`;
  const asking = await begin(other, "1000", ["python3", "-c", ask]);
  for (let i = 0; i < 3; i++) {
    const { id } = await other.snapshot();
    await host.runtime.snapshots.delete(id);
  }
  await asking.signal(9);
  await other.stop();
});

test("the kernel lets no process outside read the view, not even the host's root, so none can be made to wait", async () => {
  const first = host.runtime.firstProcess(machine.id);
  const read = () => execFileSync("cat", [`/proc/${first}/root/proc/meminfo`], { stdio: "pipe", timeout: 10_000 });
  expect(read).toThrow(/Permission denied/);
});

test("no limit is above what the host has", async () => {
  const other = await host.boot({ limits: { vcpus: 1, memory: 2 ** 42 } });
  expect(await shell(other, "1000", "node -p 'os.totalmem()'")).toBe(`${totalmem()}\n`);
  await other.stop();
});

test("the view is still there and right after another daemon took the machine over", async () => {
  const other = await host.boot({ limits: { vcpus: 1, memory: 2 * memory } });
  const runtime = await host.reopen();
  const adopted = runtime.machine(other.id);
  if (!adopted) throw new Error("The machine was not taken over");
  expect(await shell(adopted, "1000", "node -p 'os.totalmem()'")).toBe(`${2 * memory}\n`);
  await adopted.stop();
  machine = runtime.machine(machine.id) ?? machine;
});

describe("a neighbour that works hard", () => {
  /** every file that does not belong to one process, by path, with its content */
  const readAll = `const fs = require("fs"), said = {};
    const walk = (folder) => { for (const name of fs.readdirSync(folder)) {
      const path = folder + "/" + name; if (/^\\/proc\\/([0-9]+|self|thread-self)$/.test(path) || /kmsg|sysrq/.test(path)) continue;
      try { if (fs.lstatSync(path).isDirectory()) walk(path); else if (fs.lstatSync(path).isFile()) said[path] = fs.readFileSync(path, "utf8"); } catch {} } };
    walk("/proc"); console.log(JSON.stringify(said))`;
  /** these change through the reader itself, and show only its own numbers */
  const own =
    /^\/proc\/(meminfo|vmstat|stat|uptime|loadavg|sys\/kernel\/(ns_last_pid|random\/uuid))$|^\/proc\/sysvipc\//;
  const work = `for i in 1 2 3 4; do (while :; do :; done) & done
    head -c 300M /dev/zero > /tmp/big; i=0; while [ $i -lt 400 ]; do i=$((i+1)); sleep 1000 3< /etc/hostname & done
    exec tail -f /dev/null`;

  test.each(users)("is visible in no file of /proc to %s", async (user) => {
    const neighbour = await host.boot({ limits: { vcpus: 1, memory: 2 * memory } });
    const read = async (): Promise<Record<string, string>> =>
      JSON.parse(await shell(machine, user, `node -e '${readAll}'`));
    const before = await read();
    const load = await begin(neighbour, user, ["sh", "-c", work]);
    await eventually("the neighbour is at work", async () => {
      const count = "pgrep -xc sleep; stat -c %s /tmp/big; cut -d' ' -f1 /proc/loadavg";
      const [sleeping = 0, size = 0, load = 0] = (await shell(neighbour, user, count)).split("\n").map(Number);
      return sleeping === 400 && size === 300 << 20 && load > 0.1;
    });
    const during = await read();
    await load.signal(9);
    await neighbour.stop();
    expect(Object.keys(before).length).toBeGreaterThan(100);
    const changed = Object.keys(during).filter((path) => before[path] !== during[path] && !own.test(path));
    expect(changed).toEqual([]);
    const [idle = 0, load1 = 0] = [during["/proc/stat"]?.split(/ +/)[4], during["/proc/loadavg"]?.split(" ")[0]].map(
      Number,
    );
    expect(idle).toBeGreaterThan(0);
    expect(load1).toBeLessThan(1);
  });
});

test("on a host without FUSE the files are there with the sandbox's limits", async () => {
  await using undo = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "sandkeep-test-"));
  undo.defer(() => rm(folder, { recursive: true, force: true }));
  const [guest, shut] = [join(folder, "guest"), join(folder, "shut")];
  await writeFile(shut, "", { mode: 0 });
  const line = `exec unshare -m --propagation slave sh -c 'mount --bind "$0" /dev/fuse && exec ${guestBinary} "$@"' ${shut} "$@"`;
  await writeFile(guest, `#!/bin/sh\n${line}\n`, { mode: 0o755 });
  const without = await withRuntime(undo, { guest });
  const plain = await without.boot({ limits: { vcpus: 1, memory } });
  expect(await shell(plain, "1000", "node -p 'os.totalmem() + \" \" + os.cpus().length'")).toBe(`${memory} 1\n`);
  expect((await run(plain, "root", ["sh", "-c", "echo x > /proc/meminfo"])).code).not.toBe(0);
});
