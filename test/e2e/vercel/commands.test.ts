/** Commands through the vendor's SDKs: attached and detached, their output, their end, and what ends them. */

import { createHash } from "node:crypto";
import { once } from "node:events";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { beforeAll, describe, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { credentials, cwdOf, raw, sandboxOf, sdks, waysTo } from "../clients.ts";
import { redirectThisProcess } from "../redirected-process.ts";

const daemon = daemonOfFile();
beforeAll(() => redirectThisProcess(daemon()));

describe.each(waysTo(daemon))("$name", (way) => {
  const { Sandbox } = way;
  const cwd = cwdOf(way.version);
  const sandbox = sandboxOf(() => Sandbox.create({ ...way.auth, persistent: false }));

  test("a command that is waited for returns its output, exit code and directory", async () => {
    const script = "echo out; echo err >&2; pwd; exit 3";
    const command = await sandbox().runCommand("sh", ["-c", script]);
    expect(command.exitCode).toBe(3);
    expect(await command.stdout()).toBe(`out\n${cwd}\n`);
    expect(await command.stderr()).toBe("err\n");
    expect((await command.output("both")).split("\n").sort()).toEqual(["", cwd, "err", "out"]);
    expect(command.cmdId).toMatch(/^cmd_[0-9a-f]{28}$/);
    expect(command.cwd).toBe(cwd);
    expect(command.durationMs).toBeGreaterThanOrEqual(0);
    expect(Math.abs(Date.now() - command.startedAt)).toBeLessThan(20_000);
  });

  test("directory, environment, root and streams are as requested", async () => {
    const [stdout, stderr] = [new PassThrough(), new PassThrough()];
    const script = 'echo "$PWD $(id -un) $B $HOME"; echo warn >&2';
    const options = { cmd: "sh", args: ["-c", script], cwd: "/tmp", env: { B: "2" } };
    const root = await sandbox().runCommand({ ...options, sudo: true, stdout, stderr });
    expect(root.exitCode).toBe(0);
    stdout.end();
    stderr.end();
    expect(await text(stdout)).toBe("/tmp root 2 /root\n");
    expect(await text(stderr)).toBe("warn\n");
    const user = await sandbox().runCommand(options);
    const isImage = way.version === "3.5.0";
    expect(await user.stdout()).toBe(
      isImage ? "/tmp ubuntu 2 /vercel\n" : "/tmp vercel-sandbox 2 /home/vercel-sandbox\n",
    );
  });

  test("output comes while the command runs", async () => {
    const stdout = new PassThrough();
    const script = "mkfifo gate; echo first; read line < gate; echo $line; rm gate";
    const running = sandbox().runCommand({ cmd: "sh", args: ["-c", script], stdout });
    const [first] = await once(stdout, "data");
    expect(String(first)).toBe("first\n");
    await sandbox().runCommand("sh", ["-c", "echo second > gate"]);
    const command = await running;
    expect(command.exitCode).toBe(0);
    expect(await command.stdout()).toBe("first\nsecond\n");
  });

  test("a detached command is found again, waited for, and its output can be read from the start any number of times", async () => {
    const command = await sandbox().runCommand({
      cmd: "sh",
      args: ["-c", "echo a; sleep 0.1; echo b >&2; exit 5"],
      detached: true,
    });
    expect(command.exitCode).toBeNull();
    const lines: { stream: string; data: string }[] = [];
    for await (const line of command.logs()) lines.push(line);
    expect(lines).toEqual([
      { stream: "stdout", data: "a\n" },
      { stream: "stderr", data: "b\n" },
    ]);
    const finished = await command.wait();
    expect(finished.exitCode).toBe(5);
    const found = await sandbox().getCommand(command.cmdId);
    expect(found).toMatchObject({
      cmdId: command.cmdId,
      exitCode: 5,
      startedAt: command.startedAt,
      cwd,
    });
    for (const again of [found, finished]) {
      expect(await again.stdout()).toBe("a\n");
      expect(await again.stderr()).toBe("b\n");
    }
    expect((await found.wait()).exitCode).toBe(5);
    await expect(sandbox().getCommand(`cmd_${"0".repeat(28)}`)).rejects.toMatchObject({ response: { status: 404 } });
  });

  test("closing the log of a command does not end it", async () => {
    const command = await sandbox().runCommand({ cmd: "sh", args: ["-c", "echo up; exec sleep 600"], detached: true });
    const logs = command.logs();
    expect((await logs.next()).value).toEqual({ stream: "stdout", data: "up\n" });
    logs.close();
    const abort = new AbortController();
    const waiting = command.wait({ signal: abort.signal });
    abort.abort();
    await expect(waiting).rejects.toThrow();
    expect((await sandbox().getCommand(command.cmdId)).exitCode).toBeNull();
    await command.kill("SIGKILL");
    expect((await command.wait()).exitCode).toBe(137);
  });

  test.each([
    ["SIGTERM", undefined, 143],
    ["SIGKILL", "SIGKILL", 137],
    ["SIGINT", "SIGINT", 130],
    ["10", 10, 138],
  ] as const)("a command killed by %s has the code of the signal", async (_, signal, code) => {
    const command = await sandbox().runCommand({ cmd: "sleep", args: ["600"], detached: true });
    await command.kill(signal);
    expect((await command.wait()).exitCode).toBe(code);
    await command.kill(signal);
  });

  test("a command whose time is over is killed", async () => {
    const command = await sandbox().runCommand({
      cmd: "sh",
      args: ["-c", "echo begun; exec sleep 600"],
      timeoutMs: 1500,
    });
    expect(command.exitCode).toBe(137);
    expect(await command.stdout()).toBe("begun\n");
  });

  test("a file that is not a program is refused before anything runs", async () => {
    await expect(sandbox().runCommand("no-such-program")).rejects.toMatchObject({
      response: { status: 400 },
      json: {
        error: {
          code: "executable_not_found",
          message: "[invalid_argument] executable file not found in $PATH: no-such-program",
        },
      },
    });
    const lost = sandbox().runCommand({ cmd: "true", cwd: "/no/such/directory" });
    await expect(lost).rejects.toMatchObject({ response: { status: 400 } });
  });

  test("arguments arrive as they are", async () => {
    const args = ["", " ", "a b", "'\"`$(x)\\", "ünï€😀", "-n", "*", "\n"];
    const command = await sandbox().runCommand("node", [
      "-e",
      "console.log(JSON.stringify(process.argv.slice(1)))",
      "--",
      ...args,
    ]);
    expect(JSON.parse(await command.stdout())).toEqual(args);
  });

  test("200,000 characters of three bytes arrive whole", async () => {
    const command = await sandbox().runCommand("node", ["-e", 'process.stdout.write("€".repeat(200000))']);
    const output = await command.stdout();
    expect(output.length).toBe(200_000);
    expect(output.replaceAll("€", "")).toBe("");
    const detached = await sandbox().getCommand(command.cmdId);
    expect((await detached.stdout()) === output).toBe(true);
  });
});

describe.each(waysTo(daemon).filter(({ name }) => name.endsWith("preload")))("$name", (way) => {
  const sandbox = sandboxOf(() => way.Sandbox.create({ ...way.auth, persistent: false }));

  test("20 MB of output arrive whole", async () => {
    // The lines differ, so that the test notices lost, repeated or swapped ones.
    const script =
      'for (let n = 0; n < 320000; n++) { const s = String(n).padStart(63, "x") + "\\n"; if (!process.stdout.write(s)) await new Promise((done) => process.stdout.once("drain", done)); }';
    const command = await sandbox().runCommand("node", ["--input-type=module", "-e", script]);
    expect(command.exitCode).toBe(0);
    const expected = Array.from({ length: 320_000 }, (_, n) => `${String(n).padStart(63, "x")}\n`).join("");
    const output = await command.stdout();
    expect(output.length).toBe(20_480_000);
    expect(hashOf(output)).toBe(hashOf(expected));
    const again = await sandbox().getCommand(command.cmdId);
    expect(hashOf(await again.stdout())).toBe(hashOf(expected));
  });

  test("binary output is converted to text as well as possible", async () => {
    const command = await sandbox().runCommand("printf", ["a\\377b\\303"]);
    expect(await command.stdout()).toBe("a\ufffdb\ufffd");
  });
});

describe("on the wire", () => {
  const sandbox = sandboxOf(() => sdks["3.5.0"].Sandbox.create({ ...credentials(daemon()), persistent: false }));
  const path = (rest = "") => `/v2/sandboxes/sessions/${sandbox().currentSession().sessionId}/cmd${rest}`;

  test("a stream is of exactly one type, pure ASCII, and begins and ends with the command", async () => {
    const body = {
      command: "sh",
      args: ["-c", "printf 'grüße 😀'; exit 4"],
      env: {},
      sudo: false,
      wait: true,
      logs: true,
    };
    const answer = await raw(daemon(), "POST", path(), { body });
    expect(answer.headers.get("content-type")).toBe("application/x-ndjson");
    expect(answer.headers.get("content-encoding")).toBeNull();
    expect(answer.text).toMatch(/^[\x20-\x7e\n]*$/);
    const lines = answer.text
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines[0].command.exitCode).toBeNull();
    expect(
      lines
        .slice(1, -1)
        .map(({ data }) => data)
        .join(""),
    ).toBe("grüße 😀");
    expect(lines.at(-1).command).toMatchObject({
      id: lines[0].command.id,
      exitCode: 4,
      durationMs: expect.any(Number),
    });
    const quiet = await raw(daemon(), "POST", path(), { body: { ...body, logs: undefined } });
    expect(quiet.text.trim().split("\n")).toHaveLength(2);
    const all = await raw(daemon(), "GET", path());
    expect(all.json.commands.map(({ id }: { id: string }) => id)).toContain(lines[0].command.id);
  });

  test("the same Idempotency-Key runs a command once", async () => {
    const body = { command: "sh", args: ["-c", "echo x >> /tmp/times; cat /tmp/times"], env: {}, sudo: false };
    const headers = { "idempotency-key": "run-once" };
    const [first, second] = await Promise.all([
      raw(daemon(), "POST", path(), { body, headers }),
      raw(daemon(), "POST", path(), { body, headers }),
    ]);
    expect(second.json.command.id).toBe(first.json.command.id);
    const attached = await raw(daemon(), "POST", path(), { body, headers });
    expect(attached.json.command.id).toBe(first.json.command.id);
    await raw(daemon(), "GET", path(`/${first.json.command.id}?wait=true`));
    const times = await sandbox().readFileToBuffer({ path: "/tmp/times" });
    expect(times?.toString()).toBe("x\n");
    const other = await raw(daemon(), "POST", path(), { body: { ...body, args: [] }, headers });
    expect(other).toMatchObject({ status: 400, json: { error: { code: "bad_request" } } });
  });

  test("a command keeps running when its client disconnects", async () => {
    const body = {
      command: "sh",
      args: ["-c", "echo begun; exec sleep 600"],
      env: {},
      sudo: false,
      wait: true,
      logs: true,
    };
    const abort = new AbortController();
    const answer = await fetch(new URL(path(), daemon().url), {
      method: "POST",
      headers: { authorization: `Bearer ${daemon().key}`, "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: abort.signal,
    });
    const reader = answer.body?.getReader();
    const { value } = (await reader?.read()) ?? {};
    const { command } = JSON.parse(new TextDecoder().decode(value).split("\n")[0] ?? "");
    abort.abort();
    const found = await eventually("the command is still there", () => sandbox().getCommand(command.id));
    expect(found.exitCode).toBeNull();
    await found.kill("SIGKILL");
  });
});

function hashOf(content: string): string {
  return createHash("sha256").update(content).digest("hex");
}
