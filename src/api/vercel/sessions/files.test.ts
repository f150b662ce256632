/** Files on Vercel's wire. */

import { Readable } from "node:stream";
import { describe, expect, test } from "vitest";
import { apiClient } from "../../../../test/harness/api-client.ts";
import { failing, sessionId } from "../../../../test/harness/fake-core.ts";

const base = `/api/v2/sandboxes/sessions/${sessionId}/fs`;
const caller = { teamId: "team_default" };

describe("read", () => {
  test("is bytes, with the file's name", async () => {
    const { send, asked } = apiClient({
      "files.read": async () => Readable.from([Buffer.from([0, 255]), Buffer.from([7])]),
    });
    const response = await send("POST", `${base}/read`, {
      body: JSON.stringify({ path: 'a/b"ü.txt', cwd: "/vercel" }),
    });
    expect(response.headers.get("content-type")).toBe("application/octet-stream");
    expect(response.headers.get("content-disposition")).toBe(
      "attachment; filename=\"b__.txt\"; filename*=UTF-8''b%22%C3%BC.txt",
    );
    expect([...new Uint8Array(await response.arrayBuffer())]).toEqual([0, 255, 7]);
    expect(asked("files.read")).toEqual([[caller, sessionId, 'a/b"ü.txt', "/vercel"]]);
  });

  test("of an empty file is empty", async () => {
    const { ask } = apiClient({ "files.read": async () => Readable.from([]) });
    const { status, text } = await ask("POST", `${base}/read`, { path: "empty" });
    expect([status, text]).toEqual([200, ""]);
  });

  test("of a missing file is 404 in the hosted service's words", async () => {
    const { ask } = apiClient({ "files.read": failing("not-found") });
    const { status, json } = await ask("POST", `${base}/read`, { path: "missing" });
    expect([status, json.error]).toEqual([404, { code: "not_found", message: "File not found." }]);
  });

  test("of a missing session says that the session is missing", async () => {
    const { ask } = apiClient({ "files.read": failing("not-found") });
    const { status, json } = await ask("POST", `${base.replace(sessionId, "sbx_9")}/read`, { path: "x" });
    expect([status, json.error.message]).toEqual([404, 'Session "sbx_9" not found.']);
  });

  test("of a directory, or of a file that cannot be opened, is a file error", async () => {
    const directory = apiClient({ "files.read": failing("invalid", "error reading file: /tmp: it is a directory") });
    const { status, json } = await directory.ask("POST", `${base}/read`, { path: "/tmp" });
    expect([status, json.error]).toEqual([
      400,
      { code: "file_error", message: "error reading file: /tmp: it is a directory" },
    ]);
    const secret = apiClient({
      "files.read": async () =>
        Readable.from(
          (async function* () {
            yield* [];
            await failing("forbidden")();
          })(),
        ),
    });
    expect((await secret.ask("POST", `${base}/read`, { path: "shadow" })).json.error).toEqual({
      code: "file_error",
      message: "error reading file: /vercel/sandbox/shadow: Permission denied",
    });
  });

  test("that breaks off cuts the connection, so that a part does not look complete", async () => {
    const { send } = apiClient({
      "files.read": async () =>
        Readable.from(
          (async function* () {
            yield Buffer.from("half");
            throw new Error("lost");
          })(),
        ),
    });
    const response = await send("POST", `${base}/read`, { body: JSON.stringify({ path: "x" }) });
    await expect(response.text()).rejects.toThrow("lost");
  });

  test("a client that disconnects closes the file", async () => {
    const file = new Readable({ read() {} });
    file.push(Buffer.alloc(1 << 20));
    const { send } = apiClient({ "files.read": async () => file });
    const response = await send("POST", `${base}/read`, { body: JSON.stringify({ path: "x" }) });
    await response.body?.cancel();
    expect(file.destroyed).toBe(true);
  });
});

describe("write", () => {
  test("streams the body into a directory", async () => {
    const received: Buffer[] = [];
    const { send, asked } = apiClient({
      "files.extract": async (_: unknown, __: string, ___: string, tar: AsyncIterable<Uint8Array>) => {
        for await (const chunk of tar) received.push(Buffer.from(chunk));
      },
    });
    const headers = { "content-type": "application/gzip", "x-cwd": "/" };
    const response = await send("POST", `${base}/write`, { headers, body: Buffer.from("a tar") });
    expect([response.status, await response.json()]).toEqual([200, {}]);
    expect(Buffer.concat(received).toString()).toBe("a tar");
    expect(asked("files.extract")[0]?.slice(0, 3)).toEqual([caller, sessionId, "/"]);
  });

  test("without `x-cwd` the core chooses the directory", async () => {
    const { send, asked } = apiClient();
    await send("POST", `${base}/write`, { body: Buffer.from("a tar") });
    expect(asked("files.extract")[0]?.[2]).toBeUndefined();
  });

  test("keeps no more of the body in memory than is being unpacked", async () => {
    let produced = 0;
    const { promise, resolve } = Promise.withResolvers<void>();
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        produced++;
        controller.enqueue(new Uint8Array(64 << 10));
      },
    });
    const { send } = apiClient({
      "files.extract": async (_: unknown, __: string, ___: string, tar: AsyncIterable<Uint8Array>) => {
        let count = 0;
        for await (const _chunk of tar) if (++count === 3) break;
        resolve();
      },
    });
    await send("POST", `${base}/write`, { body: endless });
    await promise;
    expect(produced).toBeLessThan(10);
  });

  test.each(["invalid", "limit", "forbidden"] as const)("a failure with %s is a file error", async (code) => {
    const { send } = apiClient({ "files.extract": failing(code, "Cannot extract: because") });
    const response = await send("POST", `${base}/write`, { body: Buffer.from("x") });
    expect([response.status, await response.json()]).toEqual([
      400,
      { error: { code: "file_error", message: "Cannot extract: because" } },
    ]);
  });

  test("without a body is refused", async () => {
    const { ask, asked } = apiClient();
    expect((await ask("POST", `${base}/write`)).status).toBe(400);
    expect(asked("files.extract")).toEqual([]);
  });
});

describe("mkdir", () => {
  test("is not recursive unless asked", async () => {
    const { ask, asked } = apiClient();
    expect((await ask("POST", `${base}/mkdir`, { path: "a" })).json).toEqual({});
    await ask("POST", `${base}/mkdir`, { path: "a", cwd: "/tmp", recursive: true });
    expect(asked("files.mkdir").map((args) => args.slice(2))).toEqual([
      ["a", { cwd: undefined, recursive: false }],
      ["a", { cwd: "/tmp", recursive: true }],
    ]);
  });

  test.each([
    ["exists", "/vercel/probe-dir: File exists"],
    ["not-found", "No such file or directory"],
    ["forbidden", "/vercel/probe-dir: Permission denied"],
  ] as const)("a failure with %s is worded as by the hosted service: %s", async (code, words) => {
    const { ask } = apiClient({ "files.mkdir": failing(code) });
    const { status, json } = await ask("POST", `${base}/mkdir`, { path: "../probe-dir" });
    expect([status, json.error]).toEqual([400, { code: "file_error", message: `error creating directory: ${words}` }]);
  });

  test.each([{}, { path: "" }, { path: "a\0" }, { path: 1 }, { path: "a", mode: 1 }, { path: "x".repeat(5000) }])(
    "%j is refused",
    async (body) => {
      const { ask, asked } = apiClient();
      expect((await ask("POST", `${base}/mkdir`, body)).status).toBe(400);
      expect(asked("files.mkdir")).toEqual([]);
    },
  );
});
