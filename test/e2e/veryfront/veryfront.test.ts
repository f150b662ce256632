/** Veryfront's own npm client, unmodified, against a daemon: sessions, commands and files through both interfaces. */

import { Sandbox } from "veryfront/sandbox";
import { beforeAll, describe, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { violations } from "../../schemas/schema.ts";
import { listOutput } from "../../schemas/veryfront.ts";
import { type RawAnswer, raw } from "../clients.ts";

const daemon = daemonOfFile();
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

const post = (path: string, body?: unknown) => raw(daemon(), "POST", path, body === undefined ? {} : { body });
const get = (path: string) => raw(daemon(), "GET", path);
const remove = (path: string) => raw(daemon(), "DELETE", path);

beforeAll(() => {
  // As `sandkeep env veryfront` sets them.
  process.env.VERYFRONT_API_URL = daemon().url;
  process.env.VERYFRONT_API_TOKEN = daemon().key;
});

async function withSandbox(use: (sandbox: Sandbox) => Promise<void>): Promise<void> {
  const sandbox = await Sandbox.create();
  try {
    await use(sandbox);
  } finally {
    await sandbox.close();
  }
}

describe("the client", () => {
  test("runs commands in the workspace, as a user who may write there", () =>
    withSandbox(async (sandbox) => {
      const { stdout, stderr, exitCode } = await sandbox.executeCommand(
        "pwd; id -un; echo é > f; cat f; echo no >&2; exit 3",
      );
      expect({ stdout, stderr, exitCode }).toEqual({
        stdout: "/workspace\nvercel-sandbox\né\n",
        stderr: "no\n",
        exitCode: 3,
      });
      const options = { cwd: "/tmp", env: { WORD: "hello" }, projectReference: "prj_default" };
      expect(await sandbox.executeCommand('echo "$WORD from $PWD"', options)).toMatchObject({
        stdout: "hello from /tmp\n",
      });
    }));

  test("streams a command's output while it runs", () =>
    withSandbox(async (sandbox) => {
      const events = sandbox.executeStream("echo first; until [ -e go ]; do sleep 0.05; done; echo last");
      expect((await events.next()).value).toEqual({ type: "stdout", data: "first\n" });
      await sandbox.writeFiles([{ path: "go", content: "" }]);
      const rest = [];
      for await (const event of events) rest.push(event);
      expect(rest).toEqual([
        { type: "stdout", data: "last\n" },
        { type: "exit", exitCode: 0 },
      ]);
    }));

  test("ends a command whose time is over, and says so", () =>
    withSandbox(async (sandbox) => {
      const events = [];
      for await (const event of sandbox.executeStream("sleep 600", { timeout_seconds: 0.2 })) events.push(event);
      expect(events).toEqual([
        { type: "error", data: "The command was ended: its time was over" },
        { type: "exit", exitCode: 137 },
      ]);
    }));

  test("writes and reads files, with directories on the way", () =>
    withSandbox(async (sandbox) => {
      const content = "grüße\n".repeat(30_000);
      await sandbox.writeFiles([
        { path: "a/b/c.txt", content },
        { path: "/tmp/absolute", content: "there" },
      ]);
      expect(await sandbox.readFile("/workspace/a/b/c.txt")).toBe(content);
      expect(await sandbox.readFile("/tmp/absolute")).toBe("there");
      await expect(sandbox.readFile("missing")).rejects.toMatchObject({
        detail: expect.stringMatching(/^Read file failed: 404 .*"detail":/),
      });
      await expect(sandbox.writeFiles([{ path: "/proc/x", content: "" }])).rejects.toMatchObject({
        detail: expect.stringMatching(/^Write files failed: 4\d\d /),
      });
    }));

  test("starts, follows, lists and cancels commands in the background", () =>
    withSandbox(async (sandbox) => {
      const started = await sandbox.startBackgroundCommand("echo out; echo err >&2; sleep 600", { cwd: "/" });
      expect(started).toMatchObject({
        id: expect.stringMatching(/^cmd_/),
        status: "running",
        exitCode: null,
        signal: null,
        finishedAt: null,
        heartbeatStatus: "healthy",
        lastHeartbeatError: null,
        heartbeatFailureCount: 0,
      });
      expect(Date.parse(started.startedAt)).toBeLessThanOrEqual(Date.parse(started.lastHeartbeatAt ?? ""));
      const output = await eventually("it has printed", async () => {
        const now = await sandbox.getBackgroundCommandOutput(started.id);
        return now.stderr !== "" && now.stdout !== "" && now;
      });
      expect(output).toMatchObject({
        stdout: "out\n",
        stderr: "err\n",
        stdoutTruncated: false,
        stderrTruncated: false,
        status: "running",
      });
      const failed = await sandbox.startBackgroundCommand("exit 5");
      await eventually("it failed", async () => (await sandbox.getBackgroundCommand(failed.id)).status === "failed");
      expect(await sandbox.cancelBackgroundCommand(started.id)).toMatchObject({
        status: "canceled",
        signal: "SIGTERM",
      });
      const all = await sandbox.listBackgroundCommands();
      expect(all.map(({ id, status, exitCode }) => ({ id, status, exitCode }))).toEqual([
        { id: started.id, status: "canceled", exitCode: 143 },
        { id: failed.id, status: "failed", exitCode: 5 },
      ]);
    }));

  test("also cancels commands that ignore the signal", () =>
    withSandbox(async (sandbox) => {
      const { id } = await sandbox.startBackgroundCommand("trap '' TERM; echo deaf; while :; do sleep 1; done");
      await eventually("it is deaf", async () => (await sandbox.getBackgroundCommandOutput(id)).stdout !== "");
      expect(await sandbox.cancelBackgroundCommand(id)).toMatchObject({ status: "canceled", signal: "SIGKILL" });
      expect(await sandbox.cancelBackgroundCommand(id)).toMatchObject({ status: "canceled" });
    }));

  test("reconnects by id, and not to a closed session", async () => {
    const sandbox = await Sandbox.create();
    await sandbox.executeCommand("echo kept > file");
    expect(await (await Sandbox.get(sandbox.id)).readFile("file")).toBe("kept\n");
    expect(await Sandbox.attach({ id: sandbox.id, endpoint: sandbox.url }).readFile("file")).toBe("kept\n");
    await sandbox.heartbeat();
    await sandbox.close();
    await expect(Sandbox.get(sandbox.id)).rejects.toMatchObject({
      detail: expect.stringMatching(/^Failed to get sandbox: 404 /),
    });
    await expect(sandbox.heartbeat()).rejects.toMatchObject({
      detail: expect.stringMatching(/^Sandbox heartbeat failed: 404 /),
    });
    await expect(sandbox.executeCommand("true")).rejects.toMatchObject({
      detail: expect.stringMatching(/^Exec failed: 404 .*has ended/),
    });
    // Closing twice is not an error.
    await sandbox.close();
  });

  test("makes a session when the first command needs one, and again after it was closed elsewhere", async () => {
    const sandbox = Sandbox.createLazy({ projectId: "prj_default", heartbeatGraceMs: 0 });
    try {
      expect(sandbox.isActive).toBe(false);
      expect(await sandbox.executeCommand("echo one")).toMatchObject({ stdout: "one\n", exitCode: 0 });
      const first = sandbox.id;
      await remove(`/sandbox-sessions/${first}`);
      await expect(sandbox.executeCommand("echo two")).rejects.toThrow(/heartbeat failed: 404/);
      expect(await sandbox.executeCommand("echo three")).toMatchObject({ stdout: "three\n" });
      expect(sandbox.id).not.toBe(first);
    } finally {
      await sandbox.close();
    }
  });

  test("reports errors in a sentence", async () => {
    const unknown = Sandbox.create({ projectId: "00000000-0000-4000-8000-000000000000" });
    await expect(unknown).rejects.toMatchObject({
      detail: expect.stringMatching(/^Failed to create sandbox: 404 .*Project not found/),
    });
    await expect(Sandbox.create({ authToken: "sk_wrong" })).rejects.toMatchObject({
      detail: expect.stringMatching(/401 .*Not authorized/),
    });
  });
});

describe("a session over HTTP", () => {
  test("has every field of the contract, by each way in which its time is counted", async () => {
    const [usual, fixed, short, always] = await Promise.all([
      post("/sandbox-sessions"),
      post("/sandbox-sessions", { ttl_mode: "duration", ttl_hours: 2 }),
      post("/sandbox-sessions", { ttl_mode: "duration", ttl_hours: 0.5 }),
      post("/sandbox-sessions", { ttl_mode: "always_on" }),
    ]);
    for (const { status, json } of [usual, fixed, short, always]) {
      expect(status).toBe(201);
      expect(json).toMatchObject({
        id: expect.stringMatching(/^sbx_/),
        short_id: expect.stringMatching(/^[a-z0-9]+$/),
        endpoint: `${daemon().url}/veryfront/${json.id}`,
        status: "running",
        project_id: expect.stringMatching(uuid),
      });
      expect((await get(`/sandbox-sessions/${json.id}`)).json).toEqual(json);
    }
    const life = ({ json }: RawAnswer) => json.expires_at && Date.parse(json.expires_at) - Date.parse(json.created_at);
    expect(usual.json).toMatchObject({ ttl_mode: "default", ttl_hours: null, last_activity_at: expect.any(String) });
    expect(fixed.json).toMatchObject({ ttl_mode: "duration", ttl_hours: 2, last_activity_at: null });
    expect(short.json).toMatchObject({ ttl_mode: "duration", ttl_hours: null });
    expect(always.json).toMatchObject({ ttl_mode: "always_on", ttl_hours: null, expires_at: null });
    expect(Math.floor(life(fixed) / 3_600_000)).toBe(2);
    expect(Math.floor(life(short) / 1_800_000)).toBe(1);
    for (const { json } of [usual, fixed, short, always]) {
      expect(await remove(`/sandbox-sessions/${json.id}`)).toMatchObject({ status: 200, json: { ok: true } });
    }
  });

  test("is on pages that list every session once, forwards and backwards, and matches the vendor's schema", async () => {
    const made: string[] = [];
    for (let i = 0; i < 5; i++) made.unshift((await post("/sandbox-sessions")).json.id);
    const page = async (query: string) => {
      const { status, json } = await get(`/sandbox-sessions?limit=2${query}`);
      expect(status).toBe(200);
      // The schema is the MCP tool's, where `first` is an object; over REST the vendor's own client reads null.
      expect(violations(listOutput, { ...json, page_info: { ...json.page_info, first: {} } })).toEqual([]);
      expect(json.page_info.first).toBeNull();
      return { ids: json.data.map(({ id }: { id: string }) => id), info: json.page_info };
    };
    const one = await page("");
    expect(one).toMatchObject({ ids: made.slice(0, 2), info: { self: null, next: made[1], prev: null } });
    const two = await page(`&cursor=${one.info.next}`);
    expect(two).toMatchObject({ ids: made.slice(2, 4), info: { self: made[1], next: made[3] } });
    const three = await page(`&cursor=${two.info.next}`);
    expect(three).toMatchObject({ ids: made.slice(4), info: { next: null } });
    const back = await page(`&cursor=${three.info.prev}`);
    expect(back).toMatchObject({ ids: made.slice(2, 4), info: { next: made[3] } });
    expect(await page(`&cursor=${back.info.prev}`)).toMatchObject({ ids: made.slice(0, 2), info: { prev: null } });
    // A session that has ended is on no page, but is still a valid cursor.
    await remove(`/sandbox-sessions/${made[1]}`);
    expect((await page("")).ids).toEqual([made[0], made[2]]);
    expect((await page(`&cursor=${made[1]}`)).ids).toEqual(made.slice(2, 4));
    const { data } = await Sandbox.list({ limit: 100 });
    expect(data.map(({ id }) => id)).toEqual(made.filter((id) => id !== made[1]));
    for (const id of made) await remove(`/sandbox-sessions/${id}`);
  });

  test("takes the same commands and files below the session as below its endpoint", async () => {
    const { json: session } = await post("/sandbox-sessions");
    const base = `/sandbox-sessions/${session.id}`;
    const ran = await post(`${base}/commands/run`, { command: "echo out; echo err >&2; exit 4" });
    expect(ran).toMatchObject({ status: 200, json: { stdout: "out\n", stderr: "err\n", exit_code: 4, signal: null } });
    const streamed = await post(`${base}/commands/stream`, { command: "echo hi" });
    expect(streamed.headers.get("content-type")).toBe("application/x-ndjson");
    expect(streamed.text).toBe('{"type":"stdout","data":"hi\\n"}\n{"type":"exit","exitCode":0}\n');
    const files = await post(`${base}/files`, { files: [{ path: "x", content: "y" }] });
    expect(files.json).toEqual({ results: [{ path: "x", ok: true, status: "written", error: null }] });
    expect((await get(`${base}/file?path=x`)).text).toBe("y");
    const started = await post(`${base}/commands`, { command: "sleep 600" });
    expect(started).toMatchObject({ status: 201, json: { status: "running", command: "sleep 600" } });
    const { id } = started.json;
    const listed = await get(`${base}/commands`);
    expect(listed.json.commands.at(-1)).toMatchObject({ id, command_id: id, status: "running", exit_code: null });
    expect(await get(`/veryfront/${session.id}/exec/commands/${id}`)).toMatchObject({
      json: { id, status: "running" },
    });
    expect(await post(`${base}/commands/${id}/cancel`)).toMatchObject({ status: 200, json: { status: "canceled" } });
    expect(await get(`${base}/commands/${id}/output`)).toMatchObject({ json: { stdout: "", status: "canceled" } });
    await remove(base);
    // Output can be read for as long as it is kept.
    expect((await get(`${base}/commands/${id}`)).status).toBe(200);
  });

  test.each(["run", "stream"])("ends a command when the caller that waits for it disconnects: %s", async (way) => {
    const { json: session } = await post("/sandbox-sessions");
    const base = `/sandbox-sessions/${session.id}`;
    const gone = new AbortController();
    const body = { command: "echo begun; sleep 600" };
    const waiting = raw(daemon(), "POST", `${base}/commands/${way}`, { body, signal: gone.signal });
    const status = async () => (await get(`${base}/commands`)).json.commands[0]?.status;
    await eventually("it runs", async () => (await status()) === "running");
    gone.abort();
    await expect(waiting).rejects.toThrow();
    await eventually("it was canceled", async () => (await status()) === "canceled");
    await remove(base);
  });

  test("keeps the end of an output that is too long for one answer", async () => {
    const { json: session } = await post("/sandbox-sessions");
    const ran = await post(`/sandbox-sessions/${session.id}/commands/run`, {
      command: "yes é | head -c 3000000; echo end",
    });
    expect(ran.json).toMatchObject({ stdout_truncated: true, stderr_truncated: false, exit_code: 0 });
    expect(ran.json.stdout).toMatch(/^é?\n(é\n)+end\n$/);
    expect(Buffer.byteLength(ran.json.stdout)).toBeLessThanOrEqual(1 << 20);
    await remove(`/sandbox-sessions/${session.id}`);
  });
});
