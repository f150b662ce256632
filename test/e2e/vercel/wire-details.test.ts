/** Codes and fields for programs: our answers have everything that recorded answers of the hosted service have. */

import { expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { accessTo, raw, sdks } from "../clients.ts";

const daemon = daemonOfFile({ SANDKEEP_MAX_TIMEOUT: "1h" });
const { Sandbox } = sdks["3.5.0"];
const architecture = process.arch === "arm64" ? "arm64" : "amd64";

const create = (options = {}) => Sandbox.create({ ...accessTo(daemon()), ...options });
const sessions = "/v2/sandboxes/sessions";

test("a session that would run for too long is refused with a code of its own", async () => {
  const sandbox = await create({ timeout: 60_000 });
  for (const duration of [3_600_000, 90_000_000]) {
    const refused = await sandbox.extendTimeout(duration).catch((error) => error.json?.error);
    expect(refused).toMatchObject({ code: "sandbox_timeout_invalid", message: expect.stringContaining("3600000") });
  }
  expect(sandbox.currentSession().timeout).toBe(60_000);
  await sandbox.delete();
});

test.each(["a b", "a/b", "ä", "x".repeat(129)])("sessions are listed by a name, which %j is not", async (name) => {
  for (const list of [sessions, "/v2/sandboxes/snapshots"]) {
    const { status, json } = await raw(daemon(), "GET", `${list}?name=${encodeURIComponent(name)}`);
    expect([status, json.error.code]).toEqual([400, "bad_request"]);
  }
});

test("sandbox, session and snapshot have their architecture, and a sandbox its image; empty fields are absent", async () => {
  const sandbox = await create({ persistent: false });
  const { json } = await raw(daemon(), "GET", `/v2/sandboxes/${sandbox.name}`);
  expect(json.sandbox).toMatchObject({
    architecture,
    image: expect.stringMatching(/^vercel\/sandbox\/universal@sha256:[0-9a-f]{64}$/),
  });
  expect(json.session).toMatchObject({ architecture });
  for (const member of ["tags", "mounts"]) expect(json.sandbox).not.toHaveProperty(member);
  // A create may name an image as answers do.
  const same = await create({ image: json.sandbox.image });
  expect(same.image).toBe(json.sandbox.image);
  await Promise.all([sandbox.delete(), same.delete()]);
});

test("a snapshot is answered with its session as it was while it was taken, and times move as the hosted ones", async () => {
  const sandbox = await create({ persistent: false });
  const { name } = sandbox;
  const { sessionId } = sandbox.currentSession();
  const before = (await raw(daemon(), "GET", `/v2/sandboxes/${name}`)).json;
  await sandbox.extendTimeout(60_000);
  const taken = await raw(daemon(), "POST", `${sessions}/${sessionId}/snapshot`);
  expect(taken.status).toBe(201);
  const { snapshot, session } = taken.json;
  expect(snapshot).toMatchObject({ architecture, status: "created", creationMethod: "manual" });
  expect(session).toMatchObject({ status: "snapshotting", updatedAt: before.session.updatedAt });
  expect(session).not.toHaveProperty("stoppedAt");
  expect(session.snapshottedAt).toBeLessThanOrEqual(snapshot.createdAt);

  const stopped = await raw(daemon(), "POST", `${sessions}/${sessionId}/stop`);
  expect(stopped.status).toBe(200);
  expect(stopped.json).not.toHaveProperty("snapshot");
  expect(stopped.json.session).toMatchObject({
    status: "stopped",
    snapshottedAt: session.snapshottedAt,
    updatedAt: before.session.updatedAt,
    requestedStopAt: expect.any(Number),
  });
  expect(stopped.json.session.requestedStopAt).toBeGreaterThanOrEqual(stopped.json.session.stoppedAt);

  const deleted = await raw(daemon(), "DELETE", `/v2/sandboxes/snapshots/${snapshot.id}`);
  expect(deleted.json.snapshot).toEqual({ ...snapshot, status: "deleted", sizeBytes: expect.any(Number) });
  const gone = await raw(daemon(), "DELETE", `/v2/sandboxes/${name}`);
  expect(gone.json.sandbox).toMatchObject({ currentSnapshotId: snapshot.id, updatedAt: before.sandbox.updatedAt });
});

test("kill signals the process of a command and not its children, unless requested, and reports no exit", async () => {
  const sandbox = await create();
  const { sessionId } = sandbox.currentSession();
  const script = "trap 'exit 42' TERM; sleep 1000 & echo $! > /tmp/child; while :; do wait; done";
  const start = async () => {
    const command = await sandbox.runCommand({
      cmd: "bash",
      args: ["-c", script],
      detached: true,
    });
    await eventually("the child runs", async () => (await sandbox.readFileToBuffer({ path: "/tmp/child" }))?.length);
    return command;
  };
  const childLives = async () => (await sandbox.runCommand("sh", ["-c", "kill -0 $(cat /tmp/child)"])).exitCode === 0;

  const alone = await start();
  const kill = (id: string, body: object) => raw(daemon(), "POST", `${sessions}/${sessionId}/cmd/${id}/kill`, { body });
  const answer = await kill(alone.cmdId, { signal: 15 });
  expect(answer.json.command).toMatchObject({ id: alone.cmdId, exitCode: null });
  expect(answer.json.command).not.toHaveProperty("durationMs");
  expect((await alone.wait()).exitCode).toBe(42);
  expect(await childLives()).toBe(true);

  await sandbox.runCommand("rm", ["/tmp/child"]);
  const together = await start();
  await kill(together.cmdId, { signal: 9, group: true });
  expect((await together.wait()).exitCode).toBe(137);
  await eventually("the child is gone", async () => !(await childLives()));
  await sandbox.delete();
});

test("sessions by a name are those of the sandbox that has it now; a list of all includes those of deleted ones", async () => {
  const first = await create({ name: "renewed" });
  const [before] = (await first.listSessions()).sessions;
  await first.delete();
  expect((await first.listSessions()).sessions).toEqual([]);
  const second = await create({ name: "renewed" });
  await second.stop();
  await second.runCommand("true");
  const sessions = await Array.fromAsync(await second.listSessions({ limit: 1 }));
  expect(sessions).toHaveLength(2);
  expect(sessions.map(({ id }) => id)).not.toContain(before?.id);
  const all = (await raw(daemon(), "GET", "/v2/sandboxes/sessions?limit=50")).json.sessions;
  expect(all.map(({ id }: { id: string }) => id)).toContain(before?.id);
  await second.delete();
});

test("images run as ubuntu in /vercel, runtimes as vercel-sandbox in /vercel/sandbox", async () => {
  const script = "whoami; id -gn; echo $USER $HOME; pwd; stat -c %U . /vercel/sandbox; touch here";
  const seen = async (options: object) => {
    const sandbox = await create(options);
    const output = await (await sandbox.runCommand("sh", ["-ec", script])).output("both");
    expect(sandbox.cwd).toBe(output.split("\n")[3]);
    await sandbox.delete();
    return output;
  };
  expect(await seen({})).toBe("ubuntu\nubuntu\nubuntu /vercel\n/vercel\nubuntu\nubuntu\n");
  expect(await seen({ image: "vcr.vercel.com/vercel/sandbox/ubuntu:latest" })).toMatch(/^ubuntu\n/);
  const plain = "vercel-sandbox";
  expect(await seen({ runtime: "node24" })).toBe(
    `${plain}\n${plain}\n${plain} /home/${plain}\n/vercel/sandbox\n${plain}\n${plain}\n`,
  );
});
