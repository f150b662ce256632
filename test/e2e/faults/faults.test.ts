/**
 * Faults, and how the vendor's SDKs handle them: a session that has ended, is ending or never existed, a daemon that is
 * full, dies or does not answer, and a connection that is lost at the worst moment.
 */

import { once } from "node:events";
import { readdir, readFile } from "node:fs/promises";
import { request } from "node:http";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { beforeEach, describe, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { credentials, fetchTo, raw, sandboxOf, sdks } from "../clients.ts";

const daemon = daemonOfFile({ SANDKEEP_MAX_SANDBOXES: "12" });

/** the SDK's requests to the daemon, with their status: "GET /api/… 200" */
const asked: string[] = [];
const recording: typeof fetch = async (input, init) => {
  const answer = await fetchTo(daemon())(input, init);
  const { pathname, search } = new URL(String(input));
  asked.push(`${init?.method ?? "GET"} ${pathname}${search} ${answer.status}`);
  return answer;
};
beforeEach(() => {
  asked.length = 0;
});

describe.each(Object.entries(sdks))("SDK %s", (version, { Sandbox, APIError, StreamError }) => {
  const auth = () => ({ ...credentials(daemon()), fetch: recording });
  const sandbox = sandboxOf(() => Sandbox.create({ ...auth() }));

  const calls: [string, () => Promise<unknown>][] = [
    ["runCommand", async () => expect((await sandbox().runCommand("sh", ["-c", "exit 3"])).exitCode).toBe(3)],
    ["runCommand, detached", async () => (await sandbox().runCommand({ cmd: "true", detached: true })).wait()],
    ["writeFiles", () => sandbox().writeFiles([{ path: "f", content: "x" }])],
    ["readFileToBuffer", async () => expect(String(await sandbox().readFileToBuffer({ path: "f" }))).toBe("x")],
    ["mkDir", () => sandbox().mkDir(`d${Date.now()}`)],
    ["extendTimeout", () => sandbox().extendTimeout(1000)],
    ["updateNetworkPolicy", () => sandbox().updateNetworkPolicy("allow-all")],
    ["openInteractive", async () => expect((await sandbox().openInteractive()).token).toMatch(/^.{20,}$/)],
    ["snapshot", async () => expect((await sandbox().snapshot()).status).toBe("created")],
  ];

  test.each(calls)("%s after the session has ended works in a new one", async (_, call) => {
    const before = sandbox().currentSession().sessionId;
    await raw(daemon(), "POST", `/v2/sandboxes/sessions/${before}/stop`);
    await call();
    expect(sandbox().currentSession().sessionId).not.toBe(before);
    expect(asked[0]).toMatch(new RegExp(`^POST .*${before}.* 410$`));
    expect(asked[1]).toMatch(/^GET .*resume=true.* 200$/);
    expect(asked[2]).toMatch(new RegExp(`^POST .*${sandbox().currentSession().sessionId}.* 20[01]$`));
  });

  test("a command is still found by its id after the sandbox was resumed", async () => {
    const command = await sandbox().runCommand("sh", ["-c", "echo old; exit 3"]);
    await sandbox().stop();
    const found = await sandbox().getCommand(command.cmdId);
    expect(found).toMatchObject({ cmdId: command.cmdId, exitCode: 3 });
    expect(await found.stdout()).toBe("old\n");
  });

  test("a call while a snapshot is taken waits for it and works in the session after it", async () => {
    await sandbox().runCommand("sh", ["-c", "head -c 30000000 /dev/urandom > big"]);
    const other = await Sandbox.get({ ...auth(), name: sandbox().name });
    const [snapshot, command] = await Promise.all([sandbox().snapshot(), other.runCommand("echo", ["after"])]);
    expect(await command.stdout()).toBe("after\n");
    expect(snapshot.status).toBe("created");
    // The command came either before the snapshot or in the session that was booted from it.
    const source = other.currentSession().sourceSnapshotId;
    expect([undefined, snapshot.snapshotId, sandbox().currentSession().sourceSnapshotId]).toContain(source);
  });

  test("the end of a session is an error for clients attached to a command, and a code for clients that ask later", async () => {
    const attached = sandbox().runCommand("sleep", ["600"]);
    const detached = await sandbox().runCommand({ cmd: "sleep", args: ["600"], detached: true });
    const waiting = detached.wait();
    const ended = expect(attached).rejects.toBeInstanceOf(StreamError);
    const told = expect(attached).rejects.toMatchObject({ code: "sandbox_stream_closed" });
    await sandbox().stop();
    await Promise.all([ended, told]);
    expect((await waiting).exitCode).toBe(137);
  });

  test("a session that never existed is not found, and is not resumed", async () => {
    const path = `/v2/sandboxes/sessions/sbx_${"0".repeat(28)}`;
    for (const [method, rest] of [
      ["GET", ""],
      ["POST", "/stop"],
      ["POST", "/snapshot"],
      ["GET", "/cmd"],
    ] as const) {
      expect(await raw(daemon(), method, path + rest)).toMatchObject({
        status: 404,
        json: { error: { code: "not_found" } },
      });
    }
    await expect(sandbox().getCommand(`cmd_${"0".repeat(28)}`)).rejects.toBeInstanceOf(APIError);
    expect(asked).toHaveLength(1);
  });

  test("a full daemon says when to try again, and the client does", async () => {
    const { length } = (await Sandbox.list(auth())).sandboxes.filter(({ status }) => status === "running");
    const create = () => Sandbox.create({ ...auth(), persistent: false });
    const filling = await Promise.all(Array.from({ length: 12 - length }, create));
    const full = await raw(daemon(), "POST", "/v2/sandboxes", { body: {} });
    expect(full).toMatchObject({ status: 429, json: { error: { code: "rate_limited" } } });
    expect(full.headers.get("retry-after")).toBe("1");
    asked.length = 0;
    const waited = create();
    await eventually("a first try was refused", () => asked.length > 0);
    await filling[0]?.delete();
    const late = await waited;
    expect(asked[0]).toMatch(/ 429$/);
    expect(asked.at(-1)).toMatch(/ 200$/);
    await Promise.all([late, ...filling.slice(1)].map((each) => each.delete()));
  });

  test("a machine that dies ends its session, and the next session has what was written", async () => {
    await sandbox().writeFiles([{ path: "precious", content: "kept" }]);
    const { sessionId } = sandbox().currentSession();
    const stdout = new PassThrough();
    const attached = sandbox().runCommand({ cmd: "sh", args: ["-c", "echo begun; exec sleep 600"], stdout });
    const told = expect(attached).rejects.toBeInstanceOf(StreamError);
    await once(stdout, "data");
    process.kill(await firstProcess(sessionId), "SIGKILL");
    await told;
    const ended = await eventually("the session is over", async () => {
      const { json } = await raw(daemon(), "GET", `/v2/sandboxes/sessions/${sessionId}`);
      return json.session.status === "aborted" && json.session;
    });
    expect(ended).toMatchObject({ abortedAt: expect.any(Number), duration: expect.any(Number) });
    expect(String(await sandbox().readFileToBuffer({ path: "precious" }))).toBe("kept");
    expect(sandbox().currentSession().sessionId).not.toBe(sessionId);
  });

  const atDeath: [string, () => Promise<unknown>][] = [
    ["readFileToBuffer", async () => expect(String(await sandbox().readFileToBuffer({ path: "kept" }))).toBe("kept")],
    ["writeFiles", () => sandbox().writeFiles([{ path: "more", content: "x" }])],
    ["mkDir", () => sandbox().mkDir(`at-death-${Date.now()}`)],
    ["runCommand, detached", () => sandbox().runCommand({ cmd: "true", detached: true })],
    ["updateNetworkPolicy", () => sandbox().updateNetworkPolicy("allow-all")],
  ];

  test.each(atDeath)("%s at the moment when a machine dies works in a new session", async (_, call) => {
    await sandbox().writeFiles([{ path: "kept", content: "kept" }]);
    const { sessionId } = sandbox().currentSession();
    const pid = await firstProcess(sessionId);
    process.kill(pid, "SIGKILL");
    await call();
    expect(String(await sandbox().readFileToBuffer({ path: "kept" }))).toBe("kept");
    expect(sandbox().currentSession().sessionId).not.toBe(sessionId);
  });

  test("optional members are left out, never null; members that older clients require are always there", async () => {
    const { text, json } = await raw(daemon(), "GET", `/v2/sandboxes/${sandbox().name}`);
    expect(text).not.toContain("null");
    expect(json.session).toMatchObject({ runtime: "node24", interactivePort: 26661 });
    expect(json.sandbox).toMatchObject({ runtime: "node24" });
  });

  test("a create whose answer was lost makes one sandbox", async () => {
    const before = new Set((await Array.fromAsync(await Sandbox.list(auth()))).map(({ name }) => name));
    let calls = 0;
    // The first answer never arrives: the connection breaks after the request was sent.
    const losing: typeof fetch = async (input, init) => {
      if (calls++ > 0) return fetchTo(daemon())(input, init);
      const { pathname, search } = new URL(String(input));
      await lost(`${pathname}${search}`, String(init?.body));
      throw new TypeError("fetch failed");
    };
    const made = await Sandbox.create({ ...credentials(daemon()), fetch: losing, tags: { lost: version } });
    expect(calls).toBe(2);
    await eventually("only what the client knows of is left", async () => {
      const now = (await Array.fromAsync(await Sandbox.list(auth()))).map(({ name }) => name);
      expect(now.filter((name) => !before.has(name))).toEqual([made.name]);
      return true;
    });
    await made.delete();
  });

  test("calls while the daemon is down are tried again, and the next daemon has the same data", async () => {
    await sandbox().writeFiles([{ path: "kept", content: "over the restart" }]);
    const { sessionId } = sandbox().currentSession();
    await daemon().kill9();
    const reading = sandbox().readFileToBuffer({ path: "kept" });
    const settled = reading.catch(() => undefined);
    await daemon().start();
    // Three tries are over in little more than a second; a slow start may take longer.
    const content = (await settled) ?? (await sandbox().readFileToBuffer({ path: "kept" }));
    expect(content?.toString()).toBe("over the restart");
    expect(sandbox().currentSession().sessionId).toBe(sessionId);
  });

  test("a stream that the daemon's death cuts off is an error, and the command keeps running", async () => {
    const stdout = new PassThrough();
    const script = "echo begun; sleep 1; echo done > finished; exec sleep 600";
    const running = sandbox().runCommand({ cmd: "sh", args: ["-c", script], stdout });
    const cut = expect(running).rejects.toThrow();
    await once(stdout, "data");
    await daemon().kill9();
    await cut;
    await daemon().start();
    await eventually("the command has gone on", () =>
      sandbox()
        .readFileToBuffer({ path: "finished" })
        .then((file) => file !== null),
    );
  });
});

describe("idempotency", () => {
  test("the same key creates once, also at the same time, also after a restart", async () => {
    const headers = { "idempotency-key": "create-once" };
    const body = { tags: { once: "yes" } };
    const create = () => raw(daemon(), "POST", "/v3/sandboxes", { body, headers });
    const [first, second] = await Promise.all([create(), create()]);
    expect(first.status).toBe(200);
    expect(second.json).toEqual(first.json);
    await daemon().stop();
    await daemon().start();
    expect((await create()).json).toEqual(first.json);
    const { json } = await raw(daemon(), "GET", "/v2/sandboxes?tags=once:yes");
    expect(json.sandboxes).toHaveLength(1);
    const other = await raw(daemon(), "POST", "/v3/sandboxes", { body: { tags: {} }, headers });
    expect(other.status).toBe(400);
    await raw(daemon(), "DELETE", `/v2/sandboxes/${first.json.sandbox.name}`);
  });

  test("a create that failed may be tried again with its key", async () => {
    const headers = { "idempotency-key": "failed-once" };
    const failed = await raw(daemon(), "POST", "/v3/sandboxes", { body: { image: "nowhere:v1" }, headers });
    expect(failed.status).toBe(400);
    const again = await raw(daemon(), "POST", "/v3/sandboxes", { body: { name: "after-failure" }, headers });
    expect(again.status).toBe(200);
    await raw(daemon(), "DELETE", "/v2/sandboxes/after-failure");
  });
});

/** the first process of a session's machine, from the runtime's record */
async function firstProcess(sessionId: string): Promise<number> {
  const machines = join(daemon().dataDir, "store/machines");
  const folders = await readdir(machines);
  const texts = folders.map((folder) => readFile(join(machines, folder, "machine.json"), "utf8").catch(() => "{}"));
  const records: { id?: string; pid?: number }[] = (await Promise.all(texts)).map((text) => JSON.parse(text));
  const pid = records.find(({ id }) => id === sessionId)?.pid;
  if (pid === undefined) throw new Error(`The runtime has no record of "${sessionId}"`);
  return pid;
}

/** sends a request and breaks the connection before the answer: the daemon is paused until then */
async function lost(path: string, body: string): Promise<void> {
  const headers = { authorization: `Bearer ${daemon().key}`, "content-type": "application/json" };
  process.kill(daemon().pid, "SIGSTOP");
  try {
    const sent = request(new URL(path, daemon().url), { method: "POST", headers });
    sent.on("error", () => undefined).end(body);
    await once(sent, "finish");
    sent.destroy();
    await once(sent, "close");
  } finally {
    process.kill(daemon().pid, "SIGCONT");
  }
}
