/** Resources that the kernel counts for the whole host or one user: no sandbox can take the share of the others. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Machine, Process } from "../../src/core/ports/runtime.ts";
import { thisHostsCgroups } from "../../src/runtime/linux/host/cgroup.ts";
import { kernelMemory } from "../../src/runtime/linux/host/kernel-memory-watch.ts";
import { tcpPages } from "../../src/runtime/linux/host/tcp-memory-watch.ts";
import { parseTcpSockets } from "../../src/runtime/linux/host/tcp-socket-watch.ts";
import { places } from "../../src/runtime/linux/machines/plan.ts";
import { eventually } from "../harness/harness.ts";
import { agentPid } from "../harness/linux-host.ts";
import { type TestRuntime, withRuntime } from "../harness/machine.ts";
import { begin, firstLine, install, nativeProgram, run, type User, users } from "./inside.ts";

/**
 * Open files on the host that the runtime of this test allows. The directories of the tests below must not reach it: the
 * programs would be killed for the number of their files.
 */
const openFiles = openFilesNow() + 160_000;
const megabyte = 1 << 20;
const journalLimit = 8 * megabyte;
/** pages of TCP on the host that the runtime of this test allows */
const tcpMost = tcpPages() + 20_000;
/** sockets of TCP on the host, and orphaned ones, that the runtime of this test allows */
const sockets = () => parseTcpSockets(readFileSync("/proc/net/sockstat", "utf8"));
const mostSockets = sockets().sockets + 20_000;
const mostOrphans = sockets().orphans + 2000;

/** fills the queues of listening sockets with connections that carry as much as they can, and are closed at the far end */
const unaccepted = `
import socket
listeners = []
while True:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    server.bind(("127.0.0.1", 0))
    server.listen(4096)
    listeners.append(server)
    for _ in range(500):
        client = socket.socket()
        client.setblocking(False)
        try:
            client.connect(server.getsockname())
        except BlockingIOError:
            pass
        try:
            while True:
                client.send(b"x" * 65536)
        except BlockingIOError:
            pass
        client.close()
`;

/** fills the queues of listening sockets with connections that carry nothing, and are closed at the far end */
const empty = `
import itertools, socket
listeners = []
for number in itertools.count():
    server = socket.socket()
    server.bind((f"127.{1 + number // 250}.0.{1 + number % 250}", 0))
    server.listen(512)
    listeners.append(server)
    for _ in range(500):
        client = socket.socket()
        client.connect(server.getsockname())
        client.close()
`;

/** closes connections whose last bytes are never read */
const orphans = `
import itertools, socket
held = []
for number in itertools.count():
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    server.bind((f"127.{1 + number // 250}.0.{1 + number % 250}", 0))
    server.listen(512)
    held.append(server)
    for _ in range(500):
        client = socket.socket()
        client.connect(server.getsockname())
        client.setblocking(False)
        try:
            while True: client.send(bytes(4096))
        except BlockingIOError: pass
        client.close()
`;

/** opens directories and keeps them: 600 MB of the kernel's memory, in four processes */
const directories = `
import os, time
os.fork(), os.fork()
try:
    for _ in range(34_000): os.open("/tmp", os.O_RDONLY)
except OSError: pass
time.sleep(600)
`;

/** keeps copies of the listing of a directory of the overlay, each from before the next change */
const listings = `
import os, time
for number in range(20_000): open(f"/{number:0250}", "w").close()
held = []
while True:
    held.append(os.open("/", os.O_RDONLY))
    os.listdir(held[-1])
    open("/change", "w").close()
    os.unlink("/change")
`;

/** bytes of the kernel's own memory on the host that the runtime of this test allows */
const mostKernelMemory = kernelMemory() + 150 * megabyte;

const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());
let host: TestRuntime;
let victim: Machine;
let neighbour: Machine;
let hog: string;
const said: string[] = [];
let running: Process[] = [];

beforeAll(async () => {
  const logError = (error: unknown) => said.push(String(error));
  host = await withRuntime(undo, {
    maxOpenFiles: openFiles,
    maxKernelMemory: mostKernelMemory,
    maxTcpPages: tcpMost,
    maxTcpSockets: mostSockets,
    maxTcpOrphans: mostOrphans,
    outputLimit: 2 * megabyte,
    journalLimit,
    logError,
  });
  const limits = { pids: 64, memory: 256 * megabyte };
  [victim, neighbour] = await Promise.all([host.boot({ limits }), host.boot({ limits })]);
  await install(victim, "hog");
  hog = await install(neighbour, "hog");
});

afterEach(async () => {
  for (const process of running) await process.signal(9).catch(() => undefined);
  await Promise.all(running.map((process) => process.exited));
  running = [];
});

describe.each(users)("what %s inside takes", (user) => {
  // kind, how many one sandbox gets at most, and the error after that
  test.each([
    ["inotify", 1024, "Too many open files"],
    ["timers", 16_384, "Resource temporarily unavailable"],
    ["signals", 16_384, "Resource temporarily unavailable"],
    ["terminals", 64, "No space left on device"],
  ])("of %s leaves the neighbour and the host theirs", async (kind, most, end) => {
    const [count, why] = await taken(victim, user, kind);
    expect(count).toBeGreaterThan(0);
    expect(count).toBeLessThanOrEqual(most);
    expect(why).toBe(end);
    expect(await taken(neighbour, user, kind, 4)).toEqual([4, "enough"]);
    expect(await takenOutside(kind, 4)).toEqual("4 enough");
  });

  test("of routing sockets is counted, and their buffers stay small", async () => {
    const before = unreclaimable();
    const [count, why] = await taken(victim, user, "netlink", 2000);
    expect(unreclaimable() - before).toBeLessThan(64 * megabyte);
    expect(count).toBeGreaterThanOrEqual(16);
    expect(count).toBeLessThanOrEqual(32);
    expect(why).toBe("Too many open files");
    expect(await taken(neighbour, user, "netlink", 4)).toEqual([4, "enough"]);
  });

  test("of datagrams that are begun and never sent is limited by their sockets, and does not grow with processes", async () => {
    // The kernel frees the sockets of programs that were killed a moment later, on a busy host a long one.
    await eventually("the sockets of other tests to be freed", async () => socketsOf(victim) < 16);
    const [count, why] = await taken(victim, user, "datagrams");
    expect(count).toBeGreaterThan(480);
    expect(count).toBeLessThanOrEqual(512);
    expect(why).toBe("Too many open files");
    expect(await taken(victim, user, "datagrams")).toEqual([0, "Too many open files"]);
    expect(await taken(neighbour, user, "datagrams", 4)).toEqual([4, "enough"]);
  });

  test.each(["tcp", "udp"])("of buffers of %s stays within its share of memory", async (kind) => {
    const [held] = await taken(victim, user, kind, 100);
    expect(held).toBeGreaterThan(0);
    expect(held).toBeLessThan(48);
    expect(await taken(neighbour, user, kind, 1)).toEqual([expect.any(Number), "enough"]);
  });

  test("of asynchronous I/O is nothing, because it cannot be counted for each sandbox", async () => {
    expect(await taken(victim, user, "aio")).toEqual([0, "Function not implemented"]);
  });

  test("of open files is taken back before the host's table is full", async () => {
    const command = await begin(victim, user, [hog, "files-everywhere"]);
    running.push(command);
    await eventually("its processes to be killed", async () => said.some((line) => line.includes("open files")));
    await command.signal(9).catch(() => undefined);
    await eventually("the files to be closed", async () => openFilesNow() < openFiles);
    expect((await run(neighbour, user, ["cat", "/etc/hostname"])).code).toBe(0);
    said.length = 0;
    await endPrograms(victim);
  });

  test("of connections that it does not accept is taken back before the host's memory for TCP is full", async () => {
    const command = await begin(victim, user, ["python3", "-c", unaccepted]);
    running.push(command);
    await eventually("its processes to be killed", async () => said.some((line) => line.includes("did not accept")));
    await eventually("the memory to be free", async () => tcpPages() < tcpMost);
    expect(await taken(neighbour, user, "tcp", 1)).toEqual([expect.any(Number), "enough"]);
    said.length = 0;
  });

  test.each([
    ["connections without content that it does not accept", empty, () => sockets().sockets < mostSockets],
    ["connections that it closes with bytes on their way", orphans, () => sockets().orphans < mostOrphans],
  ])(
    "of %s is taken back before the host has no more",
    async (_, program, isEnough) => {
      const command = await begin(victim, user, ["python3", "-c", program]);
      running.push(command);
      await eventually("its processes to be killed", async () => said.some((line) => line.includes("sockets of TCP")));
      await command.exited;
      await eventually("the sockets to be gone", async () => isEnough());
      expect((await run(neighbour, user, ["cat", "/etc/hostname"])).code).toBe(0);
      said.length = 0;
    },
    120_000,
  );

  const ofDirectories: [what: string, program: string][] = [["open directories", directories]];
  // The plain user may not write to any directory of the overlay.
  if (user === "root") ofDirectories.push(["copies of their listings", listings]);
  test.each(ofDirectories)(
    "of %s is taken back before the host's memory is full",
    async (_, program) => {
      const command = await begin(victim, user, ["python3", "-c", program]);
      running.push(command);
      await eventually("its processes to be killed", async () =>
        said.some((line) => line.includes("open directories")),
      );
      await eventually("the memory to be free", async () => kernelMemory() < mostKernelMemory);
      expect((await run(neighbour, user, ["cat", "/etc/hostname"])).code).toBe(0);
      await endPrograms(victim);
      said.length = 0;
    },
    120_000,
  );

  test("by printing stays within a budget for all its commands, oldest dropped first, and readers see how much", async () => {
    const commands: Process[] = [];
    for (let i = 0; i < 12; i++) {
      const command = await begin(victim, user, ["sh", "-c", "yes | head -c 1500000"]);
      await command.exited;
      commands.push(command);
    }
    expect(journalBytes()).toBeLessThanOrEqual(journalLimit);
    const [first, last] = [commands[0], commands.at(-1)];
    expect(await kept(first)).toEqual({ bytes: 0, dropped: 1_500_000 });
    expect(await kept(last)).toEqual({ bytes: 1_500_000, dropped: 0 });
  });
});

test("all machines together cannot take every pid of the host", () => {
  const { pids } = thisHostsCgroups();
  const { cgroupParent } = places(host.directory, host.runRoot);
  const together = Number(readFileSync(join(pids, cgroupParent, "pids.max"), "utf8"));
  expect(together).toBeLessThanOrEqual(Number(readFileSync("/proc/sys/kernel/pid_max", "utf8")) - 1024);
});

/** ends them as soon as there is room for the program that does it */
async function endPrograms(machine: Machine): Promise<void> {
  const end = () => run(machine, "root", ["sh", "-c", "kill -9 -1 || true"]);
  await eventually("its programs to be ended", () =>
    end().then(
      () => true,
      () => false,
    ),
  );
}

/** how many of a kind a program inside got, and the error that stopped it; it keeps them until the test ends */
async function taken(machine: Machine, user: User, kind: string, most?: number): Promise<[number, string]> {
  const command = await begin(machine, user, [hog, kind, ...(most === undefined ? [] : [String(most)])]);
  running.push(command);
  const [, count, why] = /^(\d+) (.*)\n$/.exec(await firstLine(command)) ?? [];
  return [Number(count), why ?? ""];
}

/** as the kernel counts them for its network namespace */
function socketsOf(machine: Machine): number {
  const text = readFileSync(`/proc/${agentPid(host, machine.id)}/net/sockstat`, "utf8");
  return Number(/^sockets: used (\d+)$/m.exec(text)?.[1]);
}

async function takenOutside(kind: string, most: number): Promise<string> {
  const program = spawn(await nativeProgram("hog"), [kind, String(most)], { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = await once(program.stdout, "data");
  program.kill("SIGKILL");
  return String(line).trim();
}

/** unreclaimable memory of the kernel, in bytes */
function unreclaimable(): number {
  return 1024 * Number(/^SUnreclaim:\s+(\d+) kB$/m.exec(readFileSync("/proc/meminfo", "utf8"))?.[1]);
}

function openFilesNow(): number {
  return Number(readFileSync("/proc/sys/fs/file-nr", "utf8").split("\t")[0]);
}

/** size of all journals of this runtime's machines */
function journalBytes(): number {
  const { machines } = places(host.directory, host.runRoot);
  return readdirSync(machines)
    .flatMap((name) => {
      const folder = join(machines, name, "journal");
      return readdirSync(folder).map((file) => statSync(join(folder, file)).size);
    })
    .reduce((sum, size) => sum + size, 0);
}

/** what is left of a command's output */
async function kept(command: Process | undefined): Promise<{ bytes: number; dropped: number }> {
  let bytes = 0;
  let dropped = 0;
  for await (const chunk of command?.output() ?? []) {
    bytes += chunk.data.length;
    dropped += chunk.dropped ?? 0;
  }
  return { bytes, dropped };
}
