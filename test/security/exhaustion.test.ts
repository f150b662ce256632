/**
 * What a sandbox that exhausts its resources must not be able to do: disturb its neighbour, silence its own agent, or
 * prevent a stop that keeps its files.
 */

import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { isSandkeepError } from "../../src/core/model/errors.ts";
import type { Limits, Machine, Process } from "../../src/core/ports/runtime.ts";
import { eventually } from "../harness/harness.ts";
import { type TestRuntime, withRuntime } from "../harness/machine.ts";
import { begin, firstLine, install, run, text, users } from "./inside.ts";

const megabyte = 1 << 20;
const limits: Limits = { vcpus: 1, memory: 192 * megabyte, pids: 256, disk: 64 * megabyte };

const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());
let host: TestRuntime;
let neighbour: Machine;
let victim: Machine;
let hog: string;

beforeAll(async () => {
  host = await withRuntime(undo);
  neighbour = await host.boot({ limits });
});

beforeEach(() => bootVictim(limits));

async function bootVictim(limits: Limits): Promise<void> {
  victim = await host.boot({ limits });
  hog = await install(victim, "hog");
  await victim.files().write("/var/tmp/kept", Buffer.from("still here"));
}

/** for a test that needs less than the usual */
async function replaceVictim(changes: Partial<Limits>): Promise<void> {
  await victim.stop();
  await bootVictim({ ...limits, ...changes });
}

/** After every attack: the neighbour works, the agent answers, and a stop keeps the files. */
afterEach(async () => {
  expect((await run(neighbour, "1000", ["echo", "undisturbed"])).out).toBe("undisturbed\n");
  await neighbour.files("1000").write("/var/tmp/written", Buffer.alloc(megabyte));
  expect((await victim.usage()).processes).toBeGreaterThan(0);
  const end = await victim.stop({ snapshot: true });
  expect(end.cause).toBe("asked");
  const snapshot = end.snapshot;
  if (!snapshot) throw new Error("The stopped machine left no snapshot");
  const again = await host.boot({ root: { snapshot: snapshot.id }, limits });
  expect(await text(again.files().read("/var/tmp/kept"))).toBe("still here");
  await again.stop();
});

test.each(users)("a fork bomb of %s ends at the limit of processes", async (user) => {
  await victim.exec({ id: randomUUID(), argv: ["bash", "-c", ":(){ :|:& };:"], user, cwd: "/" });
  await eventually("the bomb to reach the limit", async () => (await victim.usage()).processes >= limits.pids - 8);
  expect((await victim.usage()).processes).toBeLessThanOrEqual(limits.pids);
  await answersOrSaysLimit();
});

test.each(users)("the agent still answers while processes of %s never end", async (user) => {
  const said = await firstLine(await start(user, "processes"));
  expect(Number.parseInt(said, 10)).toBeLessThan(limits.pids);
  expect(said).toContain("Resource temporarily unavailable");
  await answersOrSaysLimit();
});

test.each(users)("ten thousand threads of %s end at the limit of processes", async (user) => {
  const said = await firstLine(await start(user, "threads"));
  expect(Number.parseInt(said, 10)).toBeLessThan(limits.pids);
  await answersOrSaysLimit();
});

test.each(users)("memory beyond the limit kills the program of %s, says so, and kills nothing else", async (user) => {
  const bystander = await victim.exec({ id: randomUUID(), argv: ["sleep", "600"], user, cwd: "/" });
  const { code, status } = await run(victim, user, [hog, "memory"]);
  expect(code).toBe(137);
  expect(status.outOfMemory).toBe(true);
  expect((await victim.usage()).outOfMemoryKills).toBeGreaterThanOrEqual(1);
  expect(bystander.exit).toBeUndefined();
  expect((await run(victim, user, ["echo", "on"])).out).toBe("on\n");
});

test.each(users)("a program of %s and all that it starts are killed for memory before the agent", async (user) => {
  const script =
    "cat /proc/self/oom_score_adj; (sh -c 'cat /proc/self/oom_score_adj' &); echo 0 > /proc/self/oom_score_adj";
  const { out } = await run(victim, user, ["sh", "-c", `${script}; sleep 0.1`]);
  expect(out.trim().split("\n")).toEqual(["500", "500"]);
  expect((await run(victim, user, ["cat", "/proc/1/oom_score_adj"])).out.trim()).not.toBe("500");
});

test.each(users)("descriptors of one process of %s end at its limit", async (user) => {
  const said = await firstLine(await start(user, "files"));
  expect(said).toContain("Too many open files");
  expect((await run(victim, user, ["cat", "/etc/hostname"])).code).toBe(0);
});

test.each(users)(
  "descriptors of every process of %s use up the sandbox's memory, not the host's table",
  async (user) => {
    const [, , most = 0] = readFileSync("/proc/sys/fs/file-nr", "utf8").split("\t").map(Number);
    // It takes seconds to fill more.
    await replaceVictim({ memory: 96 * megabyte });
    const command = await start(user, "files-everywhere");
    await Promise.race([command.exited, firstLine(command)]);
    const [open = 0] = readFileSync("/proc/sys/fs/file-nr", "utf8").split("\t").map(Number);
    expect(open).toBeLessThan(most / 2);
    await answersOrSaysLimit();
  },
);

test.each(users)("a disk that %s fills ends at the limit, and can be emptied again", async (user) => {
  const said = (await run(victim, user, [hog, "disk", "/var/tmp/full"])).out;
  expect(Number.parseInt(said, 10)).toBeLessThanOrEqual(limits.disk / megabyte);
  expect(said).toMatch(/Disk quota exceeded|No space left/);
  expect((await run(victim, user, ["rm", "/var/tmp/full"])).code).toBe(0);
  expect((await run(victim, user, ["sh", "-c", "echo again > /var/tmp/small"])).code).toBe(0);
});

test.each(users)("a disk that %s has filled can still be captured, running and stopped", async (user) => {
  await run(victim, user, [hog, "disk", "/var/tmp/full"]);
  const copy = await host.boot({ root: { snapshot: (await victim.snapshot()).id }, limits });
  expect(await text(copy.files().read("/var/tmp/kept"))).toBe("still here");
  await copy.stop();
});

test.each(users)("empty files that %s makes end at the limit of the disk", async (user) => {
  // It takes seconds to fill more.
  await replaceVictim({ disk: 24 * megabyte });
  const said = (await run(victim, user, [hog, "inodes", "/var/tmp/many"], { timeLimit: 180_000 })).out;
  expect(said).toMatch(/Disk quota exceeded|No space left/);
  expect((await run(victim, user, ["rm", "-rf", "/var/tmp/many"])).code).toBe(0);
});

test.each(users)("shared memory that %s fills counts as the sandbox's memory", async (user) => {
  await run(victim, user, [hog, "disk", "/dev/shm/full"]);
  expect((await victim.usage()).memory).toBeLessThanOrEqual(limits.memory);
  await answersOrSaysLimit();
});

test.each(users)("endless output of %s stays within the limit of kept output", async (user) => {
  const command = await victim.exec({
    id: randomUUID(),
    argv: ["sh", "-c", "yes | head -c 200000000"],
    user,
    cwd: "/",
    outputLimit: megabyte,
  });
  const { outputEnd } = await command.exited;
  expect(outputEnd).toBe(200_000_000);
  let kept = 0;
  for await (const chunk of command.output({ follow: false })) kept += chunk.data.length;
  expect(kept).toBeLessThanOrEqual(2 * megabyte);
});

test("a file request or a command that root inside stops half-way is still answered", async () => {
  const others = "for p in [0-9]*; do [ $p != 1 ] && [ $p != $$ ] && kill -STOP $p; done";
  await victim.exec({ id: randomUUID(), argv: ["sh", "-c", `while :; do ${others}; done 2>/dev/null`], cwd: "/proc" });
  const answered = (request: Promise<unknown>) => request.then(() => "answered").catch(() => "answered");
  const patience = new Promise((resolve) => setTimeout(resolve, 120_000, "still waiting"));
  for (let i = 0; i < 5; i++) {
    expect(await Promise.race([answered(text(victim.files().read("/etc/passwd"))), patience])).toBe("answered");
    expect(await Promise.race([answered(victim.exec({ id: randomUUID(), argv: ["true"] })), patience])).toBe(
      "answered",
    );
  }
});

function start(user: (typeof users)[number], what: string): Promise<Process> {
  return begin(victim, user, [hog, what]);
}

/** the exit code of a program that was killed */
const killed = 137;

/** The agent runs a command, which the kernel may kill for memory too, or reports that the sandbox has no room. */
async function answersOrSaysLimit(): Promise<void> {
  try {
    const { code, status } = await run(victim, "root", ["true"]);
    if (code !== 0) expect(status).toMatchObject({ code: killed, outOfMemory: true });
  } catch (error) {
    if (!isSandkeepError(error, "limit")) throw error;
  }
}
