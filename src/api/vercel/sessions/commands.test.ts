/** Commands on Vercel's wire: the format of the streams, and that closing a stream ends nothing else. */

import { describe, expect, test } from "vitest";
import { apiClient } from "../../../../test/harness/api-client.ts";
import {
  chunks,
  command,
  commandId,
  endedCommand,
  failing,
  failingAs,
  sessionId,
  streamOf,
  time,
} from "../../../../test/harness/fake-core.ts";
import type { Subject } from "../../../core/model/errors.ts";

const base = `/api/v2/sandboxes/sessions/${sessionId}/cmd`;
const caller = { teamId: "team_default" };
const never = () => new Promise<never>(() => undefined);

function linesOf(text: string): Record<string, unknown>[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));
}

describe("an attached run", () => {
  test("is a stream of exactly `application/x-ndjson`: the command, its output, the command with its code", async () => {
    const output = chunks(["stdout", "out\n"], ["stderr", "err\n"]);
    const { ask, asked } = apiClient({
      "commands.output": async () => streamOf(output),
      "commands.wait": async () => ({ ...endedCommand, exitCode: 3 }),
    });
    const body = { command: "sh", args: ["-c", "x"], env: { B: "2" }, sudo: true, cwd: "/tmp", wait: true, logs: true };
    const { headers, text } = await ask("POST", base, { ...body, timeout: 5000 });
    expect(headers.get("content-type")).toBe("application/x-ndjson");
    expect(linesOf(text)).toEqual([
      { command: expect.objectContaining({ id: commandId, sessionId, exitCode: null, startedAt: time }) },
      { stream: "stdout", data: "out\n" },
      { stream: "stderr", data: "err\n" },
      { command: expect.objectContaining({ id: commandId, exitCode: 3, durationMs: 7 }) },
    ]);
    expect(asked("commands.run")).toEqual([
      [caller, sessionId, { name: "sh", args: ["-c", "x"], cwd: "/tmp", env: { B: "2" }, sudo: true, timeLimit: 5000 }],
    ]);
  });

  test("without logs it is two lines", async () => {
    const { ask } = apiClient();
    const { text } = await ask("POST", base, { command: "true", wait: true });
    expect(linesOf(text).map((line) => Object.keys(line))).toEqual([["command"], ["command"]]);
  });

  test("is ASCII, and a character that arrives in pieces is decoded whole", async () => {
    const euro = Buffer.from("€");
    const { ask } = apiClient({
      "commands.output": async () =>
        streamOf(
          chunks(
            ["stdout", euro.subarray(0, 1)],
            ["stderr", Buffer.from("é").subarray(0, 1)],
            ["stdout", euro.subarray(1)],
            ["stderr", Buffer.from("é").subarray(1)],
          ),
        ),
    });
    const { text } = await ask("POST", base, { command: "x", wait: true, logs: true });
    expect(text.replaceAll("\n", "")).toMatch(/^[\x20-\x7e]*$/);
    expect(linesOf(text).filter((line) => "stream" in line)).toEqual([
      { stream: "stdout", data: "€" },
      { stream: "stderr", data: "é" },
    ]);
  });

  test("an incomplete character becomes a replacement character", async () => {
    const { ask } = apiClient({
      "commands.output": async () => streamOf(chunks(["stdout", new Uint8Array([0x61, 0xe2])])),
    });
    const { text } = await ask("POST", base, { command: "x", wait: true, logs: true });
    const data = linesOf(text).map((line) => line.data ?? "");
    expect(data.join("")).toBe("a\ufffd");
  });

  test("large output is split into lines of bounded length and is complete", async () => {
    const long = "😀€x".repeat(100_000);
    const { ask } = apiClient({ "commands.output": async () => streamOf(chunks(["stdout", long])) });
    const lines = linesOf((await ask("POST", base, { command: "x", wait: true, logs: true })).text);
    const data = lines.flatMap((line) => ("stream" in line ? [String(line.data)] : []));
    expect(Math.max(...data.map((each) => each.length))).toBeLessThanOrEqual((64 << 10) + 1);
    expect(data.every((each) => each.isWellFormed())).toBe(true);
    expect(data.join("")).toBe(long);
  });

  test("silence is filled with blank lines", async () => {
    const { promise, resolve } = Promise.withResolvers<typeof endedCommand>();
    const { send } = apiClient({ "commands.wait": () => promise }, { patience: 5 });
    const response = await send("POST", base, { body: JSON.stringify({ command: "x", wait: true }) });
    const reader = response.body?.getReader();
    let text = "";
    while (!text.includes("\n\n\n")) text += Buffer.from((await reader?.read())?.value ?? []).toString();
    resolve(endedCommand);
    for (let read = await reader?.read(); !read?.done; read = await reader?.read())
      text += Buffer.from(read?.value ?? []);
    expect(linesOf(text)).toHaveLength(2);
  });

  test("a client that disconnects ends only the stream", async () => {
    const waited = Promise.withResolvers<void>();
    const aborted = Promise.withResolvers<void>();
    const { send, asked } = apiClient({
      "commands.wait": (_: unknown, __: string, ___: string, signal: AbortSignal) => {
        signal.addEventListener("abort", () => aborted.resolve());
        waited.resolve();
        return never();
      },
    });
    const response = await send("POST", base, { body: JSON.stringify({ command: "x", wait: true }) });
    const reader = response.body?.getReader();
    await reader?.read();
    await waited.promise;
    await reader?.cancel();
    await aborted.promise;
    expect(asked("commands.kill")).toEqual([]);
  });

  test("a command that loses its sandbox ends in an error line", async () => {
    const { ask } = apiClient({
      "commands.wait": async () => ({ ...endedCommand, exitCode: 137, endCause: "session-ended" }),
    });
    const { text } = await ask("POST", base, { command: "x", wait: true, logs: true });
    expect(linesOf(text).at(-1)).toEqual({
      stream: "error",
      data: {
        code: "sandbox_stream_closed",
        message: "Sandbox stream was closed and is not accepting commands.",
      },
    });
  });

  test("output that breaks off ends in an error line", async () => {
    const { ask, logged } = apiClient({
      "commands.output": async () =>
        (async function* () {
          yield* chunks(["stdout", "a"]);
          throw new Error("the journal is gone");
        })(),
    });
    const { text } = await ask("POST", base, { command: "x", wait: true, logs: true });
    expect(linesOf(text).at(-1)).toMatchObject({ stream: "error" });
    expect(logged).toHaveLength(1);
  });

  test("dropped output is reported on stderr, marked apart from what the command printed", async () => {
    const [first, second] = chunks(["stdout", "a"], ["stdout", "z"]);
    const { ask } = apiClient({ "commands.output": async () => streamOf([first, { ...second, dropped: 1000 }]) });
    const { text } = await ask("GET", `${base}/${commandId}/logs`);
    expect(linesOf(text)).toEqual([
      { stream: "stdout", data: "a" },
      { stream: "stderr", data: "[sandkeep] 1000 bytes of earlier output are no longer kept\n", dropped: 1000 },
      { stream: "stdout", data: "z" },
    ]);
  });
});

describe("a detached run", () => {
  test("is answered at once, without an exit code", async () => {
    const { ask } = apiClient();
    const { headers, json } = await ask("POST", base, { command: "sleep", args: ["9"], env: {}, sudo: false });
    expect(headers.get("content-type")).toBe("application/json; charset=utf-8");
    expect(json.command).toMatchObject({ id: commandId, exitCode: null });
  });

  test("that is repeated with its idempotency key runs once", async () => {
    const { ask, asked } = apiClient();
    const headers = { "idempotency-key": "k" };
    const first = await ask("POST", base, { command: "x" }, { headers });
    expect((await ask("POST", base, { command: "x" }, { headers })).json).toEqual(first.json);
    const attached = { command: "x", wait: true, logs: true };
    await ask("POST", base, attached, { headers: { "idempotency-key": "k2" } });
    const again = await ask("POST", base, attached, { headers: { "idempotency-key": "k2" } });
    expect(linesOf(again.text)).toHaveLength(3);
    expect(asked("commands.run")).toHaveLength(2);
  });
});

describe("a refused run", () => {
  test("of an unknown program is a bad request in the hosted service's words", async () => {
    const { ask } = apiClient({ "commands.run": failing("invalid", undefined, { kind: "executable" }) });
    const { status, json } = await ask("POST", base, { command: "nope", wait: true, logs: true });
    expect([status, json.error]).toEqual([
      400,
      { code: "executable_not_found", message: "[invalid_argument] executable file not found in $PATH: nope" },
    ]);
  });

  test.each([
    ["stopped", 410, "sandbox_stopped", "Sandbox has stopped execution and is no longer available"],
    ["stopping", 422, "sandbox_stopping", "Sandbox is stopping and is no longer available."],
    ["snapshotting", 422, "sandbox_snapshotting", "Sandbox is creating a snapshot and will be stopped shortly."],
  ] as const)("because the session is %s is %i %s", async (state, status, word, message) => {
    const { ask } = apiClient({ "commands.run": failingAs(state) });
    const reply = await ask("POST", base, { command: "x", wait: true });
    expect([reply.status, reply.json.error]).toEqual([status, { code: word, message }]);
  });

  test.each([
    [{}, "Invalid request: missing required property `command`."],
    [{ command: "" }, "Invalid request: `command` should NOT be shorter than 1 characters."],
    [{ command: "a\0b" }, "Invalid request: a string has a NUL or half a character in it."],
    [{ command: "x", args: ["\0"] }, "Invalid request: a string has a NUL or half a character in it."],
    [{ command: "x", args: [1] }, "Invalid request: `args[0]` should be string."],
    [
      { command: "x", env: { "A=B": "" } },
      "Invalid request: the name of an environment variable is empty or has `=` in it.",
    ],
    [{ command: "x", timeout: 99 }, "Invalid request: `timeout` should be >= 100."],
    [{ command: "x", logs: true }, "Invalid request: `logs` is only valid when `wait` is `true`"],
    [{ command: "x", shell: true }, "Invalid request: should NOT have additional property `shell`."],
  ])("as %j is refused", async (body, message) => {
    const { ask, asked } = apiClient();
    const { status, json } = await ask("POST", base, body);
    expect([status, json.error.message]).toEqual([400, message]);
    expect(asked("commands.run")).toEqual([]);
  });
});

describe("waiting for a command", () => {
  test("sends headers at once and blanks until it ends", async () => {
    const { promise, resolve } = Promise.withResolvers<typeof endedCommand>();
    const { send } = apiClient(
      { "commands.get": async () => command, "commands.wait": () => promise },
      { patience: 5 },
    );
    const response = await send("GET", `${base}/${commandId}?wait=true`);
    expect(response.status).toBe(200);
    const reader = response.body?.getReader();
    expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe(" ");
    resolve({ ...endedCommand, exitCode: 137 });
    let text = "";
    for (let read = await reader?.read(); !read?.done; read = await reader?.read())
      text += Buffer.from(read?.value ?? []);
    expect(JSON.parse(text).command.exitCode).toBe(137);
  });

  test("a missing command is 404, before any header is sent", async () => {
    const { ask } = apiClient({ "commands.get": failing("not-found") });
    expect((await ask("GET", `${base}/${commandId}?wait=true`)).status).toBe(404);
    expect((await ask("GET", `${base}/${commandId}/logs`)).status).toBe(404);
  });

  test("without `wait` the answer is its current state", async () => {
    const { ask, asked } = apiClient({ "commands.get": async () => command });
    expect((await ask("GET", `${base}/${commandId}?wait=false`)).json.command.exitCode).toBeNull();
    expect(asked("commands.wait")).toEqual([]);
  });

  test("a command that lost its sandbox has the exit code of a killed one", async () => {
    const { ask } = apiClient({ "commands.get": async () => ({ ...command, endedAt: time + 1 }) });
    expect((await ask("GET", `${base}/${commandId}`)).json.command.exitCode).toBe(137);
  });
});

test("commands are listed", async () => {
  const { ask } = apiClient();
  expect((await ask("GET", base)).json.commands).toHaveLength(1);
});

test("a kill sends the given signal, or 15 by default", async () => {
  const { ask, asked } = apiClient();
  await ask("POST", `${base}/${commandId}/kill`, { signal: 9 });
  await ask("POST", `${base}/${commandId}/kill`);
  expect(asked("commands.kill").map((args) => args[3])).toEqual([9, 15]);
  for (const signal of [0, 65, 1.5, "9", null]) {
    expect((await ask("POST", `${base}/${commandId}/kill`, { signal })).status).toBe(400);
  }
});

describe("standard input", () => {
  const path = `${base}/${commandId}/stdin`;
  const fed = { command, taken: 5, isTaken: true };

  test("is attached to a command that asks for it, and to no other", async () => {
    const { ask, asked } = apiClient();
    await ask("POST", base, { command: "cat", attachStdin: true });
    await ask("POST", base, { command: "cat" });
    expect(asked("commands.run").map((args) => (args[2] as { stdin?: boolean }).stdin)).toEqual([true, undefined]);
  });

  test("is written at its offset, and the answer says how much was taken in total", async () => {
    const { ask, asked } = apiClient({ "commands.feed": async () => fed });
    const { status, json } = await ask("POST", path, { data: "aGkK", offset: 2, close: true });
    expect([status, json]).toEqual([200, { command: expect.objectContaining({ id: commandId }), bytesWritten: 5 }]);
    await ask("POST", path, {});
    expect(asked("commands.feed").map((args) => args[3])).toEqual([
      { data: Buffer.from("hi\n"), offset: 2, close: true, patience: 20_000 },
      { data: Buffer.alloc(0), close: false, patience: 20_000 },
    ]);
  });

  test("that the command does not read is a 504 that says how much was taken", async () => {
    const { ask } = apiClient({ "commands.feed": async () => ({ ...fed, isTaken: false }) });
    const { status, json } = await ask("POST", path, { data: "aGkK", offset: 0 });
    expect([status, json.error]).toEqual([
      504,
      { code: "command_stdin_timeout", message: "The command does not read its standard input.", bytesWritten: 5 },
    ]);
  });

  test.each([
    ["gone", 404, "command_not_found_or_exited"],
    ["conflict", 400, "command_stdin_unavailable", { kind: "command" }],
  ] as const)("that fails with %s is a %i", async (code, status, wire, about?: Subject) => {
    const { ask } = apiClient({ "commands.feed": failing(code, undefined, about) });
    const answer = await ask("POST", path, { data: "aGkK", offset: 0 });
    expect([answer.status, answer.json.error.code]).toEqual([status, wire]);
  });

  test.each([{ data: "%" }, { data: 1 }, { offset: -1 }, { offset: 0.5 }, { close: 1 }, { more: true }])(
    "%j is refused",
    async (body) => {
      const { ask, asked } = apiClient();
      expect((await ask("POST", path, body)).status).toBe(400);
      expect(asked("commands.feed")).toEqual([]);
    },
  );
});

test.each(["x", "cmd_", "cmd_a%2fb", "cmd_%00"])("%s is not a command", async (id) => {
  const { ask, asked } = apiClient();
  expect((await ask("GET", `${base}/${id}`)).status).toBe(404);
  expect(asked("commands.get")).toEqual([]);
});
