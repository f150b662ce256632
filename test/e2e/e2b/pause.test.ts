/** Pauses with memory, driven by E2B's own SDK, unmodified: programs go on where they were, over crashes too. */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Sandbox, SandboxNotFoundError } from "e2b";
import { expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { raw } from "../clients.ts";
import { useDaemon } from "./e2b.ts";

const daemon = daemonOfFile();
useDaemon(daemon);

/** has a secret that is only in its memory, works all the time, and answers each line with the secret and a number */
const program = `
import sys, threading, secrets, http.server
secret, asked = secrets.token_hex(8), 0
def work():
    while True: pass
threading.Thread(target=work, daemon=True).start()
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(secret.encode())
    def log_message(self, *_): pass
server = http.server.HTTPServer(("", 3000), Answer)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("up", flush=True)
for line in sys.stdin:
    asked += 1
    print(secret, asked, flush=True)
`;

/** runs the program in the sandbox; returns its process and what it prints from now on */
async function started(sandbox: Sandbox) {
  await sandbox.files.write("program.py", program);
  const command = await sandbox.commands.run("exec python3 -u program.py", {
    background: true,
    stdin: true,
    timeoutMs: 0,
  });
  await eventually("the program runs", () => command.stdout.includes("up\n"));
  return command;
}

/** asks the program by its process id; its answer */
async function ask(sandbox: Sandbox, pid: number): Promise<string> {
  const command = await sandbox.commands.connect(pid);
  await sandbox.commands.sendStdin(pid, "\n");
  await eventually("an answer", () => / \d+\n/.test(command.stdout));
  await command.disconnect();
  return command.stdout.trim();
}

test("a program goes on after a pause with its memory and its process id, and uses no processor meanwhile", async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 60_000, metadata: { kept: "memory" } });
  const command = await started(sandbox);
  const [secret] = (await ask(sandbox, command.pid)).split(" ");
  const watched = Promise.withResolvers<Error | undefined>();
  await sandbox.files.watchDir("/home/user", () => undefined, { onExit: watched.resolve, timeoutMs: 0 });
  await sandbox.files.write("seen", "x");
  const cut = command.wait().then(String, String);
  const { endAt } = await sandbox.getInfo();

  expect(await sandbox.pause()).toBe(true);
  expect(await sandbox.pause()).toBe(false);
  expect(await cut).toContain("it is paused");
  expect(await watched.promise).toBeInstanceOf(Error);
  const info = await sandbox.getInfo();
  expect(info).toMatchObject({ state: "paused", metadata: { kept: "memory" } });
  expect(info.endAt.getTime()).toBeLessThan(endAt.getTime());
  expect(await sandbox.isRunning()).toBe(false);
  await expect(sandbox.commands.run("true")).rejects.toThrow();
  await expect(sandbox.setTimeout(1000)).rejects.toThrow(SandboxNotFoundError);
  const busy = hostPidOf("program.py");
  const before = cpuTimeOf(busy);
  const snapshot = await sandbox.createSnapshot({ name: "while-paused" });
  const [copy] = await sandbox.fork();
  if (!(copy instanceof Sandbox)) throw new Error(`The fork failed: ${copy}`);
  // The fork has the files of the paused sandbox, and none of its programs.
  expect(await copy.files.read("seen")).toBe("x");
  expect((await copy.commands.run("pgrep -c python3 || true")).stdout.trim()).toBe("0");
  await copy.kill();
  await Sandbox.deleteSnapshot(snapshot.snapshotId);
  // It keeps the snapshot of its pause, also when a later one was deleted.
  const [second] = await sandbox.fork();
  if (!(second instanceof Sandbox)) throw new Error(`The fork failed: ${second}`);
  expect(await second.files.read("seen")).toBe("x");
  await second.kill();
  expect(cpuTimeOf(busy)).toBe(before);
  expect((await sandbox.getInfo()).state).toBe("paused");

  const again = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 100_000 });
  expect(await ask(again, command.pid)).toBe(`${secret} 2`);
  const left = (await again.getInfo()).endAt.getTime() - Date.now();
  expect([left > 60_000, left <= 100_000]).toEqual([true, true]);
  expect((await again.commands.list()).map(({ pid }) => pid)).toContain(command.pid);
  const { logs } = (await get(`/sandboxes/${sandbox.sandboxId}/logs`)) as { logs: { line: string }[] };
  expect(logs.map(({ line }) => JSON.parse(line).message)).toContain("Sandbox resumed");

  // Without memory, a pause keeps the files alone.
  expect(await again.pause({ keepMemory: false })).toBe(true);
  // A snapshot can be taken of it as well. Both have the same files, and each can be deleted without the other.
  const [kept, deleted] = [await again.createSnapshot({ name: "without-memory" }), await again.createSnapshot()];
  expect(await Sandbox.deleteSnapshot(deleted.snapshotId)).toBe(true);
  const fresh = await Sandbox.connect(sandbox.sandboxId);
  expect(await fresh.files.read("seen")).toBe("x");
  const twin = await Sandbox.create(kept.snapshotId);
  expect(await twin.files.read("seen")).toBe("x");
  await twin.kill();
  expect((await fresh.commands.list()).map(({ pid }) => pid)).not.toContain(command.pid);
  // And so does a resume without it.
  const other = await started(fresh);
  await fresh.pause();
  const path = `/v2/sandboxes/${sandbox.sandboxId}/connect`;
  expect((await raw(daemon(), "POST", path, { headers: key(), body: { memory: false } })).status).toBe(201);
  expect((await fresh.commands.list()).map(({ pid }) => pid)).not.toContain(other.pid);
  expect(await fresh.files.read("seen")).toBe("x");
  await fresh.pause();
  expect(await fresh.kill()).toBe(true);
  expect(await fresh.kill()).toBe(false);
  const last = await Sandbox.create("without-memory");
  expect(await last.files.read("seen")).toBe("x");
  await last.kill();
});

test("a sandbox pauses at the end of its time, and goes on when traffic arrives at a port", async () => {
  const sandbox = await Sandbox.create({ lifecycle: { onTimeout: "pause", autoResume: true } });
  const command = await started(sandbox);
  const [secret] = (await ask(sandbox, command.pid)).split(" ");
  await sandbox.setTimeout(1000);
  await expect.poll(async () => (await sandbox.getInfo()).state).toBe("paused");
  const headers = { "e2b-sandbox-id": sandbox.sandboxId, "e2b-sandbox-port": "3000" };
  const answer = await fetch(daemon().url, { headers });
  expect([answer.status, await answer.text()]).toEqual([200, secret]);
  expect((await sandbox.getInfo()).state).toBe("running");
  // Commands and files wake it too.
  expect(await sandbox.pause()).toBe(true);
  expect(await sandbox.files.read("program.py")).toBe(program);
  expect(await ask(sandbox, command.pid)).toBe(`${secret} 2`);
  await sandbox.kill();
});

test("a sandbox that pauses at the end of its time without memory keeps its files, and its programs end", async () => {
  const lifecycle = { onTimeout: { action: "pause", keepMemory: false } } as const;
  const sandbox = await Sandbox.create({ timeoutMs: 60_000, lifecycle });
  const command = await started(sandbox);
  const cut = command.wait().then(String, String);
  await sandbox.setTimeout(1000);
  await expect.poll(async () => (await sandbox.getInfo()).state, { timeout: 30_000 }).toBe("paused");
  expect(await cut).toContain("Error");
  expect((await sandbox.getInfo()).lifecycle).toMatchObject({ onTimeout: "pause", autoResume: false });
  // Nothing is left of its machine, so what goes on begins with the files.
  const again = await Sandbox.connect(sandbox.sandboxId);
  expect(await again.files.read("program.py")).toBe(program);
  expect((await again.commands.list()).map(({ pid }) => pid)).not.toContain(command.pid);
  await again.kill();
});

test("what arrives while a sandbox is being paused waits for that, and wakes it", async () => {
  const [waking, other] = await Promise.all([
    Sandbox.create({ lifecycle: { onTimeout: "pause", autoResume: true } }),
    Sandbox.create(),
  ]);
  const isRead = (sandbox: Sandbox) =>
    sandbox.files.read("/etc/hostname").then(
      () => true,
      () => false,
    );
  for (const keepMemory of [true, false, true, false, true]) {
    // Only a request that was open when the pause began may fail.
    const reads: boolean[] = [];
    const pausing = waking.pause({ keepMemory });
    let isOver = false;
    void pausing.finally(() => {
      isOver = true;
    });
    while (!isOver) reads.push(await isRead(waking));
    expect(reads.filter((read) => !read).length).toBeLessThan(2);
    expect([await pausing, await isRead(waking)]).toEqual([true, true]);

    const otherPausing = other.pause({ keepMemory });
    while (await isRead(other));
    await Sandbox.connect(other.sandboxId);
    await otherPausing;
    expect(await isRead(other)).toBe(true);
  }
  await Promise.all([waking.kill(), other.kill()]);
});

test("a paused sandbox outlives kill -9 of the daemon; one whose machine is gone resumes from its files and says so", async () => {
  // The machine of the first one dies while there is no daemon.
  const early = await Sandbox.create();
  const before = firstProcesses();
  const [kept, lost] = await Promise.all([Sandbox.create(), Sandbox.create()]);
  const [command, gone] = await Promise.all([started(kept), started(lost), early.files.write("kept", "kept")]);
  const [secret] = (await ask(kept, command.pid)).split(" ");
  const machines = firstProcesses();
  await Promise.all([kept.pause(), lost.pause(), early.pause()]);
  await daemon().kill9();
  for (const pid of before) process.kill(pid, "SIGKILL");
  await daemon().start();
  expect((await early.getInfo()).state).toBe("paused");
  expect(await (await Sandbox.connect(early.sandboxId)).files.read("kept")).toBe("kept");
  await early.kill();
  expect((await kept.getInfo()).state).toBe("paused");
  const again = await Sandbox.connect(kept.sandboxId);
  expect(await ask(again, command.pid)).toBe(`${secret} 2`);
  await again.kill();

  const left = firstProcesses().filter((pid) => machines.includes(pid));
  for (const pid of left) process.kill(pid, "SIGKILL");
  await eventually("the daemon says so", () =>
    /ended while it was paused: .*its memory is gone, and it resumes from its files/.test(
      daemon().complaints() + daemon().said(),
    ),
  );
  expect((await lost.getInfo()).state).toBe("paused");
  const fresh = await Sandbox.connect(lost.sandboxId);
  expect(await fresh.files.read("program.py")).toBe(program);
  expect((await fresh.commands.list()).map(({ pid }) => pid)).not.toContain(gone.pid);
  const { logs } = (await get(`/v2/sandboxes/${lost.sandboxId}/logs`)) as { logs: object[] };
  expect(logs).toContainEqual(
    expect.objectContaining({ level: "warn", message: "Sandbox resumed from its files: its memory is gone" }),
  );
  await fresh.kill();
});

function key(): Record<string, string> {
  return { "x-api-key": daemon().key };
}

async function get(path: string): Promise<unknown> {
  return (await raw(daemon(), "GET", path, { headers: key() })).json;
}

/** first processes of the machines of this daemon that have not ended */
function firstProcesses(): number[] {
  const machines = join(daemon().dataDir, "store/machines");
  return readdirSync(machines).flatMap((folder) => {
    const record = join(machines, folder, "machine.json");
    // A machine that waits in the pool has none.
    if (!existsSync(record)) return [];
    const { pid, ended } = JSON.parse(readFileSync(record, "utf8"));
    return ended ? [] : [pid as number];
  });
}

/** the newest process of the host whose command line has this word */
function hostPidOf(word: string): number {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name) && commandLine(name).includes(word));
  return Math.max(...pids.map(Number));
}

function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}

/** clock ticks in user and system mode */
function cpuTimeOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return Number(fields[11]) + Number(fields[12]);
}
