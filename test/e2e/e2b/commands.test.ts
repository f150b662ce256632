/** Commands and terminals through E2B's own SDKs, the current one and the last of version 1, unmodified. */

import { type CommandExitError, type CommandHandle, Sandbox } from "e2b";
import { describe, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { sandboxOf, sdks, useDaemon } from "./e2b.ts";

const daemon = daemonOfFile();
useDaemon(daemon);

describe.each(sdks)("with SDK $version", ({ Sandbox: Sdk, version }) => {
  const sandbox = sandboxOf(() => Sdk.create({ envs: { GLOBAL: "g", BOTH: "sandbox" }, timeoutMs: 300_000 }));

  test("a command runs as the user, in its home, with the sandbox's variables and its own", async () => {
    const own = "$E2B_SANDBOX $E2B_SANDBOX_ID $E2B_TEAM_ID $E2B_TEMPLATE_ID";
    const script = `echo "$GLOBAL $BOTH $OWN ${own}"; pwd; whoami; echo "$HOME"; echo oops >&2`;
    const result = await sandbox().commands.run(script, { envs: { OWN: "o w n", BOTH: "command" } });
    expect(result).toMatchObject({ exitCode: 0, stderr: "oops\n" });
    expect(result.stdout).toBe(
      `g command o w n true ${sandbox().sandboxId} team_default base\n/home/user\nuser\n/home/user\n`,
    );
  });

  test("a command runs as another user and in another directory, if both exist", async () => {
    const run = async (options: object) => (await sandbox().commands.run("whoami; pwd", options)).stdout;
    expect(await run({ user: "root", cwd: "/tmp" })).toBe("root\n/tmp\n");
    expect(await run({ user: "root", cwd: "~" })).toBe("root\n/root\n");
    await sandbox().commands.run("mkdir -p deep/er");
    expect(await run({ cwd: "deep/er" })).toBe("user\n/home/user/deep/er\n");
    await expect(run({ cwd: "/nowhere" })).rejects.toThrow("cwd '/nowhere' does not exist");
    await expect(run({ user: "stranger" })).rejects.toThrow("invalid username: 'stranger'");
    await sandbox().commands.run("useradd -m newcomer", { user: "root" });
    expect(await run({ user: "newcomer", cwd: "~" })).toBe("newcomer\n/home/newcomer\n");
  });

  test("the exit code or signal of a command is reported", async () => {
    const failed = (await sandbox()
      .commands.run("echo out; exit 3")
      .catch((error) => error)) as CommandExitError;
    expect(failed).toMatchObject({ exitCode: 3, stdout: "out\n", error: "exit status 3" });
    const killed = await sandbox()
      .commands.run("kill -9 $$")
      .catch((error) => error);
    expect(killed).toMatchObject({ exitCode: -1, error: "signal: killed" });
  });

  test("callbacks get output as it comes, and characters that are split across two pieces stay whole", async () => {
    const pieces: string[] = [];
    const [errors, script] = [[] as string[], "printf '\\xe2\\x82'; sleep 0.2; printf '\\xac'; echo e >&2"];
    const result = await sandbox().commands.run(script, {
      onStdout: (text: string) => void pieces.push(text),
      onStderr: (text: string) => void errors.push(text),
    });
    // Version 1 decodes each piece by itself.
    if (version.startsWith("2")) expect([pieces.join(""), result.stdout]).toEqual(["€", "€"]);
    expect(errors.join("")).toBe("e\n");
  });

  test("16 MB of output arrive whole and in order", async () => {
    const { stdout } = await sandbox().commands.run("seq 1 2200000", { timeoutMs: 0 });
    expect(stdout.length).toBe(16_488_896);
    expect(stdout.endsWith("\n2199999\n2200000\n")).toBe(true);
    expect(stdout.startsWith("1\n2\n3\n")).toBe(true);
  });

  test("a background command is listed, connected to, given input and ended", async () => {
    const { commands } = sandbox();
    const handle = (await commands.run("cat; echo done", {
      background: true,
      stdin: true,
      envs: { A: "b" },
    })) as CommandHandle;
    const [listed] = (await commands.list()).filter(({ pid }) => pid === handle.pid);
    expect(listed).toMatchObject({
      cmd: "/bin/bash",
      args: ["-l", "-c", "cat; echo done"],
      cwd: "/home/user",
      envs: { A: "b" },
    });
    let seen = "";
    const onStdout = (text: string) => {
      seen += text;
    };
    const other = await commands.connect(handle.pid, { onStdout });
    expect(other.pid).toBe(handle.pid);
    await commands.sendStdin(handle.pid, "héllo\n");
    await expect.poll(() => seen).toBe("héllo\n");
    if (version.startsWith("2")) {
      await handle.closeStdin();
      expect((await handle.wait()).stdout).toBe("héllo\ndone\n");
      await other.wait();
      // The exit of a command that has just ended can still be read.
      expect((await (await commands.connect(handle.pid)).wait()).exitCode).toBe(0);
    } else {
      expect(await commands.kill(handle.pid)).toBe(true);
      await expect(handle.wait()).rejects.toMatchObject({ exitCode: -1 });
    }
    expect((await commands.list()).filter(({ pid }) => pid === handle.pid)).toEqual([]);
    expect(await commands.kill(handle.pid)).toBe(false);
    await expect(commands.sendStdin(handle.pid, "x")).rejects.toThrow("not found");
    await expect(commands.connect(4_000_000)).rejects.toThrow("not found");
  });

  test("a command keeps running when its client disconnects, and a client that comes back gets the rest", async () => {
    const { commands } = sandbox();
    const started = await commands.run("read line; echo $line; sleep 0.2; echo last", {
      background: true,
      stdin: true,
    });
    await (started as CommandHandle).disconnect();
    const back = await commands.connect(started.pid);
    await commands.sendStdin(started.pid, "first\n");
    expect((await back.wait()).stdout).toBe("first\nlast\n");
  });

  test("a command that takes too long is killed, with its children", async () => {
    const { commands } = sandbox();
    const error = await commands.run("sleep 7654321 & sleep 7654321", { timeoutMs: 700 }).catch((thrown) => thrown);
    expect(error).toMatchObject({ name: "TimeoutError" });
    const left = async () => (await commands.run("pgrep -fc '^sleep 7654321' || true")).stdout;
    await expect.poll(left).toBe("0\n");
  });

  test("a terminal is made, typed into, resized and killed", async () => {
    const { pty } = sandbox();
    let shown = "";
    const onData = (data: Uint8Array) => {
      shown += Buffer.from(data).toString();
    };
    const shell = await pty.create({ cols: 80, rows: 24, onData, timeoutMs: 0, cwd: "/tmp", envs: { MARK: "m1" } });
    const type = (text: string) => pty.sendInput(shell.pid, Buffer.from(text));
    await type('echo "$MARK:$PWD:$TERM"; stty size\n');
    await expect.poll(() => shown).toMatch(/m1:\/tmp:xterm-256color\r\n24 80\r\n/);
    await pty.resize(shell.pid, { cols: 100, rows: 30 });
    await type("stty size\n");
    await expect.poll(() => shown).toContain("30 100\r\n");
    const bytes = Buffer.from("echo ü€𝄞 | od -An -c\n");
    await pty.sendInput(shell.pid, bytes.subarray(0, 6));
    await pty.sendInput(shell.pid, bytes.subarray(6));
    await expect.poll(() => shown).toContain("303 274 342 202 254 360 235 204 236");
    expect(await pty.kill(shell.pid)).toBe(true);
    expect(await pty.kill(shell.pid)).toBe(false);
    await expect(shell.wait()).rejects.toMatchObject({ exitCode: -1 });
  });
});

test("a command without standard input reads its end, and input for it is refused", async () => {
  const sandbox = await Sandbox.create();
  expect((await sandbox.commands.run("cat; echo end")).stdout).toBe("end\n");
  const handle = await sandbox.commands.run("sleep 60", { background: true });
  await expect(sandbox.commands.sendStdin(handle.pid, "x")).rejects.toThrow("standard input");
  await sandbox.kill();
});

test("git's commands of the SDK work in a sandbox", async () => {
  const sandbox = await Sandbox.create();
  await sandbox.git.init("repo");
  await sandbox.files.write("repo/a.txt", "1");
  await sandbox.git.add("repo");
  await sandbox.git.commit("repo", "first", { authorName: "A", authorEmail: "a@example.com" });
  expect(await sandbox.git.status("repo")).toMatchObject({ currentBranch: expect.any(String), fileStatus: [] });
  await sandbox.git.createBranch("repo", "other");
  expect((await sandbox.git.branches("repo")).branches).toContain("other");
  await sandbox.kill();
});

test("a paused sandbox runs again when a client uses it, if it was created so, and otherwise is not found", async () => {
  const wakes = await Sandbox.create({ lifecycle: { onTimeout: "pause", autoResume: true } });
  const stays = await Sandbox.create({ lifecycle: { onTimeout: "pause" } });
  for (const sandbox of [wakes, stays]) {
    await sandbox.files.write("kept", "1");
    await sandbox.pause();
  }
  expect(await wakes.files.read("kept")).toBe("1");
  expect((await wakes.commands.run("cat kept")).stdout).toBe("1");
  await expect(stays.files.read("kept")).rejects.toMatchObject({ name: "TimeoutError" });
  await Promise.all([wakes.kill(), stays.kill()]);
});

test("a sandbox that has lost its default user says which", async () => {
  const sandbox = await Sandbox.create();
  await sandbox.commands.run("sed -i /^user:/d /etc/passwd", { user: "root" });
  await expect(sandbox.commands.run("true")).rejects.toThrow("invalid username: 'user'");
  await sandbox.kill();
});

test("killing a sandbox ends the streams of its clients, and it takes no more commands", async () => {
  const sandbox = await Sandbox.create();
  const handle = await sandbox.commands.run("echo begun; sleep 600", { background: true, timeoutMs: 0 });
  await expect.poll(() => handle.stdout).toBe("begun\n");
  expect(await sandbox.isRunning()).toBe(true);
  await sandbox.kill();
  await expect(handle.wait()).rejects.toMatchObject({ name: "TimeoutError" });
  expect(await sandbox.isRunning()).toBe(false);
  await expect(sandbox.commands.run("true")).rejects.toMatchObject({ name: "SandboxNotFoundError" });
  await expect(sandbox.files.read("/etc/hosts")).rejects.toMatchObject({ name: "TimeoutError" });
});
