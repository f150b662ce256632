/** kill -9 of the daemon under E2B's own SDKs, unmodified: what ran in a sandbox is there for the next daemon's clients. */

import { randomInt } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { Sandbox } from "@e2b/code-interpreter";
import { expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { useDaemon } from "./e2b.ts";

const daemon = daemonOfFile();
useDaemon(daemon);

/** seconds that nothing else on this host sleeps for */
const marked = `1000.${randomInt(1e9)}`;

test("commands, terminals, contexts and paused sandboxes go on, and clients find them again", async () => {
  const [sandbox, paused] = await Promise.all([Sandbox.create({ timeoutMs: 600_000 }), Sandbox.create("base")]);
  const held = await paused.commands.run("X=kept; read line; echo $X $line", { background: true, stdin: true });
  await paused.pause();
  const background = { background: true, stdin: true, timeoutMs: 0 } as const;
  const command = await sandbox.commands.run("echo begun; read line; echo got $line; exit 3", background);
  const ending = await sandbox.commands.run(`sleep ${marked}; exit 5`, { background: true });
  const shell = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => undefined, timeoutMs: 0 });
  await sandbox.pty.sendInput(shell.pid, Buffer.from("MARK=marked\n"));
  const context = await sandbox.createCodeContext({ cwd: "/tmp" });
  await sandbox.runCode("import os; kept = os.getcwd()", { context });
  const { promise: watchEnd, resolve: onExit } = Promise.withResolvers<Error | undefined>();
  await sandbox.files.watchDir("/home/user", () => undefined, { onExit, timeoutMs: 0 });
  const { watcherId } = await filesystem(sandbox, "CreateWatcher", { path: "/home/user" });
  const cut = [
    sandbox.runCode("while True: pass", { context, timeoutMs: 0 }).then(String, String),
    ...[held, command, ending, shell].map((handle) => handle.wait().then(String, String)),
  ];

  await daemon().kill9();
  const line = `sleep\0${marked}\0`;
  for (const pid of processesWith(line)) process.kill(pid, "SIGTERM");
  await eventually("a command ends without a daemon", () => processesWith(line).length === 0);
  expect(await watchEnd).toBeInstanceOf(Error);
  for (const end of await Promise.all(cut)) expect(end).toMatch(/Error/);
  await daemon().start();

  const pids = (await sandbox.commands.list()).map(({ pid }) => pid);
  expect(pids).toEqual(expect.arrayContaining([command.pid, shell.pid]));
  expect(pids).not.toContain(ending.pid);
  const again = await sandbox.commands.connect(command.pid);
  await sandbox.commands.sendStdin(command.pid, "input\n");
  await expect(again.wait()).rejects.toMatchObject({ exitCode: 3, stdout: "got input\n" });
  // For 30 s, also the exit of a command is there that has ended before or under another daemon.
  for (const [{ pid }, exitCode] of [[command, 3] as const, [ending, 5] as const]) {
    await expect((await sandbox.commands.connect(pid)).wait()).rejects.toMatchObject({ exitCode });
  }

  let shown = "";
  const onData = (data: Uint8Array) => {
    shown += Buffer.from(data).toString();
  };
  const terminal = await sandbox.pty.connect(shell.pid, { onData });
  await sandbox.pty.resize(shell.pid, { cols: 100, rows: 30 });
  await sandbox.pty.sendInput(shell.pid, Buffer.from('echo "<$MARK>"; stty size\n'));
  await expect.poll(() => shown).toMatch(/<marked>\r\n30 100\r\n/);
  expect(await sandbox.pty.kill(shell.pid)).toBe(true);
  expect(await sandbox.pty.kill(shell.pid)).toBe(false);
  await expect(terminal.wait()).rejects.toMatchObject({ exitCode: -1 });

  expect(await sandbox.listCodeContexts()).toContainEqual(context);
  expect((await sandbox.runCode("kept", { context })).text).toBe("/tmp");
  const seen: string[] = [];
  const watcher = await sandbox.files.watchDir("/home/user", ({ name }) => void seen.push(name));
  await sandbox.files.write("seen", "");
  await expect.poll(() => seen).toContain("seen");
  await watcher.stop();
  // The watcher that a client polls is gone, and it is told to watch again.
  expect(await filesystem(sandbox, "GetWatcherEvents", { watcherId })).toMatchObject({
    code: "not_found",
    message: expect.stringMatching(/not found: .*ended with the daemon that had it; watch again/),
  });

  const resumed = await Sandbox.connect(paused.sandboxId);
  const goesOn = await resumed.commands.connect(held.pid);
  await resumed.commands.sendStdin(held.pid, "line\n");
  expect((await goesOn.wait()).stdout).toBe("kept line\n");
  await Promise.all([sandbox.kill(), resumed.kill()]);
});

test("a kill that the daemon's death cuts off may be repeated, and ends the sandbox once", async () => {
  const sandboxes = await Promise.all(Array.from({ length: 4 }, () => Sandbox.create("base")));
  await sandboxes[0]?.pause();
  const asked = sandboxes.map((sandbox) => sandbox.kill().catch(() => undefined));
  await Promise.race(asked);
  await daemon().kill9();
  const answers = await Promise.all(asked);
  await daemon().start();
  for (const [index, sandbox] of sandboxes.entries()) {
    const second = await sandbox.kill();
    // What was acknowledged stays true.
    if (answers[index] !== undefined) expect(second).toBe(false);
    expect(await sandbox.kill()).toBe(false);
    await expect(sandbox.getInfo()).rejects.toMatchObject({ name: "SandboxNotFoundError" });
    expect(await sandbox.isRunning()).toBe(false);
  }
  expect(await Sandbox.list().nextItems()).toEqual([]);
});

/** a call of envd that only the Python SDK makes */
async function filesystem(sandbox: Sandbox, method: string, message: object): Promise<Record<string, unknown>> {
  const { envdAccessToken } = sandbox as unknown as { envdAccessToken: string };
  const headers = {
    ...{ "content-type": "application/json", "e2b-sandbox-id": sandbox.sandboxId },
    ...{ "e2b-sandbox-port": "49983", "x-access-token": envdAccessToken },
  };
  const url = `${daemon().url}/filesystem.Filesystem/${method}`;
  const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(message) });
  return (await answer.json()) as Record<string, unknown>; // envd answers in objects
}

/** the processes of the host with this command line */
function processesWith(line: string): number[] {
  return readdirSync("/proc")
    .filter((name) => {
      try {
        return /^\d+$/.test(name) && readFileSync(`/proc/${name}/cmdline`, "utf8") === line;
      } catch {
        return false;
      }
    })
    .map(Number);
}
