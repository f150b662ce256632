/**
 * The vendor's REST client, generated from its description of the API and pointed at the daemon by `serverURL`: each of
 * its functions about sandboxes validates every answer by itself, down to the last required member.
 */

import { text } from "node:stream/consumers";
import { Vercel } from "@vercel/sdk";
import { beforeAll, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { type Schema, violations } from "../../schemas/schema.ts";
import { sessionList, stoppedSession, stoppedWithSnapshot } from "../../schemas/vercel.ts";
import { type AnySandbox, credentials, fetchTo, project, raw, sdks, team } from "../clients.ts";

const daemon = daemonOfFile();
const { Sandbox } = sdks["3.5.0"];
const day = 86_400_000;
let vercel: Vercel;
let sandbox: AnySandbox;

beforeAll(async () => {
  vercel = new Vercel({ bearerToken: daemon().key, serverURL: daemon().url });
  const networkPolicy = {
    allow: {
      "api.example.com": [{ transform: [{ headers: { authorization: "secret" } }], match: { method: ["GET"] } }],
      "forward.example.com": [{ forwardURL: "https://proxy.example.com" }],
    },
    subnets: { allow: ["10.0.0.0/8"], deny: ["10.1.0.0/16"] },
  };
  sandbox = await Sandbox.create({
    ...credentials(daemon()),
    fetch: fetchTo(daemon()),
    name: "rest",
    ports: [3000],
    tags: { kind: "rest" },
    env: { A: "1" },
    networkPolicy,
    keepLastSnapshots: { count: 3, expiration: day },
    snapshotExpiration: day,
    region: "fra1",
    failoverRegions: ["cdg1"],
    networkId: "net_1",
  });
});

const session = () => sandbox.currentSession().sessionId;

test("sandboxes are listed and read", async () => {
  const { sandboxes, pagination } = await vercel.sandboxes.listNamedSandboxes({
    project,
    teamId: team,
    tags: "kind:rest",
  });
  expect(sandboxes.map(({ name, status }) => ({ name, status }))).toEqual([{ name: "rest", status: "running" }]);
  expect(pagination).toEqual({ count: 1, next: null });
  const found = await vercel.sandboxes.getNamedSandbox({ name: "rest", projectId: "default", slug: "default" });
  expect(found).toMatchObject({ resumed: false, sandbox: { name: "rest" }, session: { id: session() } });
  expect(found.routes).toMatchObject([{ port: 3000 }]);
});

test("sessions are listed, read, extended, and given a policy", async () => {
  const listed = await vercel.sandboxes.listSessions({ project, name: "rest" });
  expect(listed).toMatchObject({ sessions: [{ id: session() }], pagination: { count: 1, next: null } });
  const found = await vercel.sandboxes.getSession({ sessionId: session() });
  expect(found.session).toMatchObject({
    id: session(),
    status: "running",
    projectId: project,
    sourceSandboxName: "rest",
  });
  const extended = await vercel.sandboxes.extendSessionTimeout({
    sessionId: session(),
    requestBody: { duration: 5000 },
  });
  expect(extended.session.timeout).toBe(305_000);
  const policy = await vercel.sandboxes.updateSessionNetworkPolicy({
    sessionId: session(),
    requestBody: { mode: "deny-all" },
  });
  expect(policy.session.networkPolicy).toMatchObject({ mode: "deny-all" });
});

test("commands are listed, read, waited for and killed", async () => {
  const command = await sandbox.runCommand({ cmd: "sleep", args: ["600"], detached: true });
  const { commands } = await vercel.sandboxes.listSessionCommands({ sessionId: session() });
  expect(commands).toMatchObject([{ id: command.cmdId, name: "sleep", args: ["600"], exitCode: null }]);
  const ids = { sessionId: session(), cmdId: command.cmdId };
  expect((await vercel.sandboxes.getSessionCommand(ids)).command.exitCode).toBeNull();
  const killed = await vercel.sandboxes.killSessionCommand({ ...ids, requestBody: { signal: 9 } });
  expect(killed.command.id).toBe(command.cmdId);
  expect((await vercel.sandboxes.getSessionCommand({ ...ids, wait: "true" })).command.exitCode).toBe(137);
});

test("files are written and read, directories made", async () => {
  expect(await vercel.sandboxes.writeSessionFiles({ sessionId: session(), xCwd: "/" })).toEqual({});
  const directory = { path: "a/b/c", recursive: true };
  expect(await vercel.sandboxes.createSessionDirectory({ sessionId: session(), requestBody: directory })).toEqual({});
  await sandbox.writeFiles([{ path: "a/b/c/file.txt", content: "content" }]);
  const stream = await vercel.sandboxes.readSessionFile({
    sessionId: session(),
    requestBody: { path: "c/file.txt", cwd: "/vercel/a/b" },
  });
  expect(await text(stream)).toBe("content");
});

test("drives are made, listed and deleted", async () => {
  const requestBody = { projectId: project, maxSizeBytes: 2 ** 30 };
  const made = await vercel.sandboxes.getOrCreateDrive({ name: "d1", requestBody });
  expect(made).toMatchObject({ drive: { name: "d1", maxSizeBytes: 2 ** 30 } });
  expect(await vercel.sandboxes.getOrCreateDrive({ name: "d1", requestBody })).toEqual(made);
  const { drives } = await vercel.sandboxes.listDrives({ projectId: project });
  expect(drives.map(({ name }) => name)).toEqual(["d1"]);
  expect((await vercel.sandboxes.deleteDrive({ name: "d1", projectId: project })).drive.name).toBe("d1");
});

test("snapshots are taken by both versions, listed, read and deleted; sessions are stopped", async () => {
  const manual = await vercel.sandboxes.createSandboxesSessionsBySessionIdSnapshotV2({
    sessionId: session(),
    requestBody: { expiration: 2 * day },
  });
  expect(manual).toMatchObject({
    session: { status: "snapshotting" },
    snapshot: { status: "created", creationMethod: "manual" },
  });
  const resumed = await vercel.sandboxes.getNamedSandbox({ name: "rest", projectId: project, resume: true });
  expect(resumed).toMatchObject({
    resumed: true,
    session: { status: "running", sourceSnapshotId: manual.snapshot.id },
  });
  const second = await vercel.sandboxes.createSandboxesSessionsBySessionIdSnapshotV3({ sessionId: resumed.session.id });
  expect(second.snapshot).toMatchObject({ parentId: manual.snapshot.id });
  const third = await vercel.sandboxes.getNamedSandbox({ name: "rest", projectId: project, resume: true });
  const stopped = await vercel.sandboxes.stopSession({ sessionId: third.session.id });
  expect(stopped.session).toMatchObject({ id: third.session.id, status: "stopped" });
  const listed = await vercel.sandboxes.listSessionSnapshots({ project, name: "rest" });
  expect(listed).toMatchObject({ snapshots: [{}, { id: second.snapshot.id }, { id: manual.snapshot.id }] });
  const snapshotId = manual.snapshot.id;
  expect((await vercel.sandboxes.getSessionSnapshot({ snapshotId })).snapshot.id).toBe(snapshotId);
  expect((await vercel.sandboxes.deleteSessionSnapshot({ snapshotId })).snapshot.status).toBe("deleted");
});

test("lists of sessions and stopped sessions have the shape that the vendor's reference gives", async () => {
  const stop = async (persistent: boolean): Promise<unknown> => {
    const made = await raw(daemon(), "POST", "/v2/sandboxes", { body: { projectId: project, persistent } });
    return (await raw(daemon(), "POST", `/v2/sandboxes/sessions/${made.json.session.id}/stop`)).json;
  };
  const answers: [Schema, unknown][] = [
    [sessionList, (await raw(daemon(), "GET", "/v2/sandboxes/sessions?limit=50")).json],
    [sessionList, (await raw(daemon(), "GET", "/v2/sandboxes/sessions?limit=1")).json],
    [stoppedSession, await stop(false)],
    [stoppedWithSnapshot, await stop(true)],
  ];
  for (const [schema, answer] of answers) expect(violations(schema, answer)).toEqual([]);
  expect(violations(stoppedWithSnapshot, answers[2]?.[1])).not.toEqual([]);
});

test("a sandbox is deleted", async () => {
  const deleted = await vercel.sandboxes.deleteSandbox({
    name: "rest",
    projectId: project,
    deleteOrphanSnapshots: true,
  });
  expect(deleted.sandbox).toMatchObject({ name: "rest", status: "stopped" });
  await expect(vercel.sandboxes.getNamedSandbox({ name: "rest", projectId: project })).rejects.toMatchObject({
    statusCode: 404,
  });
});
