/** Programs see the limits of their sandbox where they look for them, and not the host's processors and memory. */

import { readdir, readFile } from "node:fs/promises";
import { cpus } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Machine } from "../../src/core/ports/runtime.ts";
import { installGo } from "../harness/go-program.ts";
import { type TestRuntime, withRuntime } from "../harness/machine.ts";
import { packagesOfFile } from "../harness/pypi.ts";
import { run, shell, users } from "./inside.ts";

const memory = 512 << 20;
const disk = 1 << 30;
const environment = packagesOfFile("psutil==7.0.0");

const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());
let host: TestRuntime;
let machine: Machine;

beforeAll(async () => {
  host = await withRuntime(undo);
  machine = await host.boot({ limits: { vcpus: 1, memory, disk } });
});

const java = (asks: string) => `cd $(mktemp -d) && echo 'public class A { public static void main(String[] a) {
  System.out.println(Runtime.getRuntime().${asks}); } }' > A.java && java A.java`;
const javaMemory = `cd $(mktemp -d) && echo 'public class A { public static void main(String[] a) {
  var host = (com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory.getOperatingSystemMXBean();
  System.out.println(host.getTotalPhysicalMemorySize()); } }' > A.java && java A.java 2> /dev/null`;
/** what Go's runtime sets GOMAXPROCS by: affinity, and the quota of the cgroup that its files lead to */
const goReads = `python3 -c '
import math, os
own = {c: path for line in open("/proc/self/cgroup") for _, names, path in [line.strip().split(":", 2)] for c in names.split(",")}
mounts = [(fields[3], fields[4], *rest.split()[0::2]) for line in open("/proc/self/mountinfo") for fields, rest in [(line.split(" - ")[0].split(), line.split(" - ")[1])]]
def read(path): return open(path).read().split()
quota = []
for root, at, kind, options in mounts:
    if kind == "cgroup2": quota = read(at + own[""] + "/cpu.max")
    if kind == "cgroup" and "cpu" in options.split(","): quota = read(at + own["cpu"] + "/cpu.cfs_quota_us") + read(at + own["cpu"] + "/cpu.cfs_period_us")
    if quota: break
print(len(os.sched_getaffinity(0)), math.ceil(int(quota[0]) / int(quota[1])))'`;

/** the name, the shell line, and its expected output; scripts/host-needs.mjs has every program of these */
const programs: [name: string, line: string, prints: string][] = [
  ["nproc", "nproc", "1"],
  ["getconf", "getconf _NPROCESSORS_ONLN", "1"],
  ["Python's os.cpu_count", "python3 -c 'import os; print(os.cpu_count())'", "1"],
  ["Node's constrained memory", "node -p 'process.constrainedMemory()'", String(memory)],
  ["V8's heap", `node -p 'v8.getHeapStatistics().heap_size_limit < ${memory}'`, "true"],
  ["Node's parallelism", "node -p 'os.availableParallelism()'", "1"],
  ["Java's processors", java("availableProcessors()"), "1"],
  ["Java's heap", java(`maxMemory() <= ${memory / 4}`), "true"],
  [
    "Python's physical memory",
    `python3 -c 'import os; print(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))'`,
    String(memory),
  ],
  ["getconf's physical memory", "echo $(($(getconf _PHYS_PAGES) * $(getconf PAGE_SIZE)))", String(memory)],
  ["Java's physical memory", javaMemory, String(memory)],
  ["Python's affinity", "python3 -c 'import os; print(len(os.sched_getaffinity(0)))'", "1"],
  ["what Go's runtime reads", goReads, "1 1"],
  ["busybox's free", "busybox free | awk '/^Mem:/ { print $2 }'", String(memory / 1024)],
  ["busybox's nproc", "busybox nproc", "1"],
];

describe.each(users)("to %s inside", (user) => {
  test.each(programs)("%s is the sandbox's own", async (_, line, prints) => {
    expect((await shell(machine, user, line)).trim()).toBe(prints);
  });

  test("a program that makes garbage beyond the limit collects it, and is not killed", async () => {
    const garbage = "let n = 0; for (let i = 0; i < 3000; i++) n += new Array(1 << 17).fill(i).length; console.log(n)";
    expect((await run(machine, user, ["node", "-e", garbage])).out.trim()).toBe(String(3000 << 17));
  });

  test("its cgroups can be read and not changed, and nothing else of the host's /sys is visible", async () => {
    const find = "find /sys/fs/cgroup -name 'memory.limit_in_bytes' -o -name memory.max";
    const file = (await shell(machine, user, find)).trim();
    expect(await shell(machine, user, `cat ${file}`)).toBe(`${memory}\n`);
    expect((await run(machine, user, ["sh", "-c", `echo -1 > ${file}`])).out).toMatch(/Read-only file system|denied/);
    expect((await run(machine, user, ["sh", "-c", "mkdir $(dirname $0)/x", file])).code).not.toBe(0);
    expect(await shell(machine, user, "ls /sys /sys/devices/system | tr '\\n' ' '")).toBe(
      "/sys: devices fs  /sys/devices/system: cpu ",
    );
    expect(await shell(machine, user, "cat /proc/self/cgroup")).not.toContain("sandkeep");
    expect(await shell(machine, user, "cat /proc/self/mountinfo")).not.toContain(machine.id);
  });
});

/** without packages besides the runtime, to build sooner */
const goSource = `package main
import "runtime"
func main() { println(runtime.NumCPU(), runtime.GOMAXPROCS(0)) }`;

test("Go's processors are the sandbox's own", async () => {
  await installGo(machine, "/usr/local/bin/processors", goSource);
  for (const user of users) expect(await shell(machine, user, "/usr/local/bin/processors")).toBe("1 1\n");
});

test("psutil's memory, processors, disk and times are the sandbox's own", async (context) => {
  // One that has done nothing yet, so that its load is that of these programs alone, however busy the host is.
  const fresh = await host.boot({ limits: { vcpus: 1, memory, disk } });
  undo.defer(async () => void (await fresh.stop()));
  const folder = join(dirname(environment.python(context)), "../lib");
  const [version = ""] = await readdir(folder);
  const packages = join(folder, version, "site-packages");
  for (const file of await readdir(join(packages, "psutil"))) {
    if (!/\.(py|so)$/.test(file)) continue;
    const content = await readFile(join(packages, "psutil", file));
    await fresh.files().write(`/opt/packages/psutil/${file}`, content, { mode: 0o644, parents: true });
  }
  const ask = `import psutil, time
start = psutil.Process().create_time()
print(psutil.virtual_memory().total, psutil.cpu_count(), psutil.swap_memory().total, psutil.disk_usage("/").total)
print(0 <= time.time() - start < 60, 0 <= start - psutil.boot_time() < 600, psutil.getloadavg()[0] <= 1)`;
  for (const user of users) {
    expect(await shell(fresh, user, `PYTHONPATH=/opt/packages python3 -c '${ask}'`)).toBe(
      `${memory} 1 0 ${disk}\nTrue True True\n`,
    );
  }
});

test("a sandbox that may use every processor sees every processor", async () => {
  const large = await host.boot({ limits: { vcpus: cpus().length } });
  expect(await shell(large, "1000", "getconf _NPROCESSORS_ONLN")).toBe(`${cpus().length}\n`);
  await large.stop();
});
