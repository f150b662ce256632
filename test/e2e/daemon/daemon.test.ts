/** The life of a daemon: its start, its stop with and without its sandboxes, and what happens while it is away. */

import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { type IncomingMessage, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { daemonOfFile, startDaemon, type TestDaemon } from "../../harness/daemon.ts";
import { eventually, root } from "../../harness/harness.ts";
import { expectNothingLeft } from "../../harness/linux-host.ts";
import { sandkeepCommand } from "../../harness/package.ts";
import { startPostgres } from "../../harness/postgres.ts";
import { credentials, fetchTo, pauseTagged, raw, sdks, writtenInTime } from "../clients.ts";
import { attachedTo } from "../sandkeep/terminal.ts";

const daemon = daemonOfFile();
const { Sandbox } = sdks["3.5.0"];
const auth = () => ({ ...credentials(daemon()), fetch: fetchTo(daemon()) });

test("a second daemon on the same data is refused with a sentence, and the first keeps running", async () => {
  const { dataDir, runDir } = daemon();
  const env = { ...process.env, SANDKEEP_DATA_DIR: dataDir, SANDKEEP_RUN_DIR: runDir, SANDKEEP_PORT: "0" };
  const second = spawnSync(process.execPath, [join(root, "src/main.ts"), "serve"], { env, encoding: "utf8" });
  expect(second).toMatchObject({ status: 1, stdout: expect.not.stringContaining("sandkeep ready") });
  expect(second.stderr).toBe(`sandkeep: Cannot serve "${dataDir}": another daemon uses it (process ${daemon().pid})\n`);
  expect(await raw(daemon(), "GET", "/health")).toMatchObject({ status: 200, json: { status: "ok" } });
});

test("a start that fails because its port is taken says so and leaves nothing on the host", async () => {
  await using undo = new AsyncDisposableStack();
  const dataDir = await mkdtemp(join(tmpdir(), "sandkeep-e2e-"));
  undo.defer(() => rm(dataDir, { recursive: true, force: true }));
  const settings = { SANDKEEP_DATA_DIR: dataDir, SANDKEEP_RUN_DIR: join(dataDir, "run") };
  const env = { ...process.env, ...settings, SANDKEEP_PORT: new URL(daemon().url).port };
  const second = spawnSync(process.execPath, [join(root, "src/main.ts"), "serve"], { env, encoding: "utf8" });
  expect(second).toMatchObject({ status: 1, stdout: expect.not.stringContaining("sandkeep ready") });
  expect(second.stderr).toMatch(
    /^sandkeep: Cannot listen on 127\.0\.0\.1:\d+: another program uses this port\nhint: --port or SANDKEEP_PORT /,
  );
  // The daemon noticed it before it made anything.
  expect([second.stdout, readdirSync(dataDir)]).toEqual(["", []]);
  await expectNothingLeft(dataDir, []);
});

test("a first start without a key makes one that only its owner can read", async () => {
  await using undo = new AsyncDisposableStack();
  const fresh = await startDaemon(undo, { SANDKEEP_API_KEY: "" });
  const file = join(fresh.dataDir, "api-key");
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const key = readFileSync(file, "utf8").trim();
  expect((await raw(fresh, "GET", "/v2/user", { key })).status).toBe(200);
  const stored = ["sandkeep.db", "sandkeep.db-wal"].map((name) => readFileSync(join(fresh.dataDir, name), "latin1"));
  expect(stored.join("")).not.toContain(key);
});

test("where no program may write core files, as sudo and service managers may set it, sandboxes start all the same", async () => {
  await using undo = new AsyncDisposableStack();
  // A limit that was lowered like this can be raised by root only, and not inside of a sandbox.
  const command = ["sh", "-c", 'ulimit -c 0; exec "$0" serve', sandkeepCommand()] as [string, ...string[]];
  const limited = await startDaemon(undo, {}, { command, fromNothing: false });
  const sandbox = await Sandbox.create({ ...credentials(limited), fetch: fetchTo(limited) });
  const done = await sandbox.runCommand("sh", ["-c", "ulimit -Hc"]);
  expect([done.exitCode, await done.stdout()]).toEqual([0, "0\n"]);
  await sandbox.delete();
});

test("a missing default image is refused at the start, with a sentence", async () => {
  await daemon().stop();
  await expect(daemon().start({ SANDKEEP_DEFAULT_IMAGE: "nowhere" })).rejects.toThrow(
    'Cannot use SANDKEEP_DEFAULT_IMAGE "nowhere": there is no such image',
  );
  await daemon().start({ SANDKEEP_DEFAULT_IMAGE: "host" });
  expect((await raw(daemon(), "GET", "/health")).status).toBe(200);
});

test("sandboxes keep running while the daemon is down, and the next daemon finds them", async () => {
  const sandbox = await Sandbox.create(auth());
  const script = "for n in $(seq 1 50); do echo $n; sleep 0.05; done";
  const command = await sandbox.runCommand({ cmd: "sh", args: ["-c", script], detached: true });
  await daemon().stop();
  await daemon().start();
  const found = await Sandbox.get({ ...auth(), name: sandbox.name });
  expect(found.currentSession().sessionId).toBe(sandbox.currentSession().sessionId);
  expect((await command.wait()).exitCode).toBe(0);
  expect(await command.stdout()).toBe(Array.from({ length: 50 }, (_, n) => `${n + 1}\n`).join(""));
  await sandbox.delete();
});

test("a session whose time ends while the daemon is down is stopped with its files at the next start", async () => {
  const { sandbox, sessionId, endsAt } = await writtenInTime((timeout) => Sandbox.create({ ...auth(), timeout }));
  await daemon().kill9();
  await eventually("its time is over", () => Date.now() > endsAt);
  await daemon().start();
  const ended = await eventually("the session has ended", async () => {
    const [session] = (await sandbox.listSessions()).sessions;
    return session?.status === "stopped" && session;
  });
  expect(ended.id).toBe(sessionId);
  expect(String(await sandbox.readFileToBuffer({ path: "kept" }))).toBe("kept");
  await sandbox.delete();
});

test("a daemon with --stop-all stops its sandboxes, and nothing is lost", async () => {
  const kept = await Sandbox.create(auth());
  const lost = await Sandbox.create({ ...auth(), persistent: false });
  const paused = await Sandbox.create({ ...auth(), persistent: false, tags: { stopped: "while-paused" } });
  for (const sandbox of [kept, paused]) await sandbox.writeFiles([{ path: "kept", content: "kept" }]);
  await pauseTagged(daemon(), "stopped", "while-paused");
  await daemon().stop();
  await daemon().start({ SANDKEEP_STOP_ALL: "true" });
  await daemon().stop();
  // Their processes are gone, too.
  await expectNothingLeft(daemon().dataDir, []);
  await daemon().start({ SANDKEEP_STOP_ALL: "false" });
  for (const sandbox of [kept, lost]) {
    expect((await Sandbox.get({ ...auth(), name: sandbox.name })).status).toBe("stopped");
  }
  for (const sandbox of [kept, paused]) {
    expect(String(await sandbox.readFileToBuffer({ path: "kept" }))).toBe("kept");
  }
  await Promise.all([kept.delete(), lost.delete(), paused.delete()]);
});

test("a proxy in front of the daemon also serves its sandboxes, and this host still reaches them directly", async () => {
  await daemon().stop();
  await daemon().start({ SANDKEEP_DOMAIN: "boxes.example", SANDKEEP_PUBLIC_URL: "https://sandkeep.example:8443" });
  const sandbox = await Sandbox.create({ ...auth(), persistent: false, ports: [3000] });
  const [route] = sandbox.routes;
  expect(route?.url).toBe(`https://${route?.subdomain}.boxes.example:8443`);
  for (const domain of ["boxes.example", "localhost"]) {
    const answer = await get(daemon().url, `${route?.subdomain}.${domain}`);
    expect([domain, answer.headers["x-sandkeep-error"]]).toEqual([domain, "SANDBOX_NOT_LISTENING"]);
  }
  expect((await get(daemon().url, `${route?.subdomain}.elsewhere.example`)).headers).not.toHaveProperty(
    "x-sandkeep-error",
  );
  await sandbox.delete();
  await daemon().stop();
  await daemon().start({ SANDKEEP_DOMAIN: "", SANDKEEP_PUBLIC_URL: "" });
});

test("a domain below localhost leads to sandboxes, and `sandkeep env` asks the daemon for it", async () => {
  await daemon().stop();
  await daemon().start({ SANDKEEP_DOMAIN: "sk.localhost" });
  const sandbox = await Sandbox.create({ ...auth(), persistent: false, ports: [3000] });
  const [route] = sandbox.routes;
  expect(route?.url).toBe(`http://${route?.subdomain}.sk.localhost:${new URL(daemon().url).port}`);
  for (const domain of ["sk.localhost", "localhost"]) {
    const answer = await get(daemon().url, `${route?.subdomain}.${domain}`);
    expect([domain, answer.headers["x-sandkeep-error"]]).toEqual([domain, "SANDBOX_NOT_LISTENING"]);
  }
  const env = { PATH: process.env.PATH, SANDKEEP_API_KEY: daemon().key };
  const { stdout } = spawnSync(join(root, "bin/sandkeep"), ["env", "vercel", "--url", daemon().url], {
    env,
    encoding: "utf8",
  });
  expect(stdout.split("\n")).toContain("export SANDKEEP_DOMAIN=sk.localhost");
  await sandbox.delete();
  await daemon().stop();
  await daemon().start({ SANDKEEP_DOMAIN: "" });
});

test("a stop does not wait for clients that only listen, or are attached to a terminal", async () => {
  await daemon().stop();
  await daemon().start({ SANDKEEP_DRAIN_TIMEOUT: "1h" });
  const sandbox = await Sandbox.create({ ...auth(), persistent: false });
  const commands = `${daemon().url}/sandkeep/v1/sandboxes/${sandbox.name}/commands`;
  const body = JSON.stringify({ command: "cat", terminal: { rows: 24, columns: 80 } });
  const headers = { authorization: `Bearer ${daemon().key}` };
  const shell = await fetch(commands, { method: "POST", headers, body });
  const { id } = (await shell.json()) as { id: string };
  await using _terminal = await attachedTo(`${commands}/${id}/terminal`, daemon().key);
  const command = await sandbox.runCommand({ cmd: "sleep", args: ["600"], detached: true });
  const waiting = command.wait().catch((error: unknown) => error);
  const logs = Array.fromAsync(command.logs()).catch((error: unknown) => error);
  const events = (await fetch(`${daemon().url}/sandkeep/v1/events?follow=true`, { headers })).text();
  // A stop that waited for them would take longer than this test may.
  await daemon().stop();
  const closing = { error: { code: "unavailable", message: "Cannot continue: the daemon is closing" } };
  expect(JSON.parse((await events).trim().split("\n").at(-1) ?? "")).toEqual(closing);
  await daemon().start({ SANDKEEP_DRAIN_TIMEOUT: "" });
  expect((await sandbox.getCommand(command.cmdId)).exitCode).toBeNull();
  // The clients were cut off, or try again by themselves.
  await command.kill("SIGKILL");
  await Promise.all([waiting, logs]);
  await sandbox.delete();
});

describe("with PostgreSQL", () => {
  const undo = new AsyncDisposableStack();
  let other: TestDaemon;
  beforeAll(async () => {
    const server = await startPostgres(undo);
    other = await startDaemon(undo, { SANDKEEP_DATABASE_URL: await server.freshDatabase() });
  });
  afterAll(() => undo.disposeAsync());

  test("everything is stored there, also over a kill", async () => {
    const scope = { ...credentials(other), fetch: fetchTo(other) };
    const sandbox = await Sandbox.create({ ...scope, name: "remembered", tags: { a: "b" }, ports: [3000] });
    await sandbox.writeFiles([{ path: "kept", content: "kept" }]);
    const command = await sandbox.runCommand("sh", ["-c", "echo said; exit 3"]);
    await other.kill9();
    await other.start();
    const found = await Sandbox.get({ ...scope, name: "remembered" });
    expect(found).toMatchObject({ status: "running", tags: { a: "b" }, routes: sandbox.routes });
    const { snapshot } = await found.stop();
    const again = await found.getCommand(command.cmdId);
    expect([again.exitCode, await again.stdout()]).toEqual([3, "said\n"]);
    expect(String(await found.readFileToBuffer({ path: "kept" }))).toBe("kept");
    expect(found.currentSession().sourceSnapshotId).toBe(snapshot?.id);
    const names = (await Array.fromAsync(await Sandbox.list({ ...scope, tags: { a: "b" } }))).map(({ name }) => name);
    expect(names).toEqual(["remembered"]);
    await found.delete();
    await expect(Sandbox.get({ ...scope, name: "remembered" })).rejects.toMatchObject({ response: { status: 404 } });
  });
});

/** the answer there to a request for this host */
async function get(url: string, host: string): Promise<IncomingMessage> {
  const asked = request(url, { headers: { host }, agent: false }).end();
  const [answer] = await once(asked, "response");
  return answer.resume();
}
