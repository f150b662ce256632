/** Programs see the limits of their sandbox where they look for them, and not the host's processors and memory. */

import { existsSync } from "node:fs";
import { cpus } from "node:os";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Machine } from "../../src/core/runtime.ts";
import { type TestRuntime, withRuntime } from "../machine.ts";
import { run, shell, users } from "./inside.ts";

const memory = 512 << 20;

const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());
let host: TestRuntime;
let machine: Machine;

beforeAll(async () => {
  host = await withRuntime(undo);
  machine = await host.boot({ limits: { vcpus: 1, memory } });
});

const java = (asks: string) => `cd $(mktemp -d) && echo 'public class A { public static void main(String[] a) {
  System.out.println(Runtime.getRuntime().${asks}); } }' > A.java && java A.java`;
const goSource = `package main
import ("fmt"; "runtime")
func main() { fmt.Println(runtime.GOMAXPROCS(0)) }`;

/** what asks, the command that it needs, the line, and what it prints */
const programs: [name: string, command: string, line: string, prints: string][] = [
  ["nproc", "nproc", "nproc", "1"],
  ["getconf", "getconf", "getconf _NPROCESSORS_ONLN", "1"],
  ["Python's os.cpu_count", "python3", "python3 -c 'import os; print(os.cpu_count())'", "1"],
  ["Node's constrained memory", "node", "node -p 'process.constrainedMemory()'", String(memory)],
  ["V8's heap", "node", `node -p 'v8.getHeapStatistics().heap_size_limit < ${memory}'`, "true"],
  ["Node's parallelism", "node", "node -p 'os.availableParallelism()'", "1"],
  ["Java's processors", "java", java("availableProcessors()"), "1"],
  ["Java's heap", "java", java(`maxMemory() <= ${memory / 4}`), "true"],
  [
    "Python's physical memory",
    "python3",
    `python3 -c 'import os; print(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))'`,
    String(memory),
  ],
  ["getconf's physical memory", "getconf", "echo $(($(getconf _PHYS_PAGES) * $(getconf PAGE_SIZE)))", String(memory)],
  ["Go's processors", "go", `cd $(mktemp -d) && echo '${goSource}' > a.go && HOME=$PWD go run a.go`, "1"],
];

/** of the host's programs, the image has those below /usr/bin; node is its own */
const isInside = ([, command]: (typeof programs)[number]) => command === "node" || existsSync(`/usr/bin/${command}`);

describe.each(users)("to %s inside", (user) => {
  test.for(programs.filter(isInside))("%s is the sandbox's own", { timeout: 60_000 }, async ([, , line, prints]) => {
    expect((await shell(machine, user, line)).trim()).toBe(prints);
  });

  test("a program that makes garbage beyond the limit collects it, and is not killed", async () => {
    const garbage = "let n = 0; for (let i = 0; i < 3000; i++) n += new Array(1 << 17).fill(i).length; console.log(n)";
    expect((await run(machine, user, ["node", "-e", garbage])).out.trim()).toBe(String(3000 << 17));
  }, 60_000);

  test("its cgroups can be read and not changed, and nothing else of the host's /sys is there", async () => {
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

test("a limit that is raised shows at once", async () => {
  const other = await host.boot({ limits: { vcpus: 1, memory } });
  await other.setLimits({ memory: 2 * memory });
  expect(await shell(other, "1000", "node -p 'process.constrainedMemory()'")).toBe(`${2 * memory}\n`);
  await other.stop();
});

test("a sandbox that may use every processor sees every processor", async () => {
  const large = await host.boot({ limits: { vcpus: cpus().length } });
  expect(await shell(large, "1000", "getconf _NPROCESSORS_ONLN")).toBe(`${cpus().length}\n`);
  await large.stop();
});
