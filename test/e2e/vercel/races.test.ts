/** Two or more clients use the same sandbox at the same moment: each gets a true answer. */

import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { credentials, fetchTo, type RawAnswer, raw, sdks } from "../clients.ts";

const daemon = daemonOfFile();
const rounds = 6;
let count = 0;

const post = (path: string, body?: unknown) => raw(daemon(), "POST", path, body === undefined ? {} : { body });
const get = (path: string) => raw(daemon(), "GET", path);
const stop = (session: string) => post(`/v2/sandboxes/sessions/${session}/stop`);
const snapshot = (session: string) => post(`/v2/sandboxes/sessions/${session}/snapshot`);
const run = (session: string) => post(`/v2/sandboxes/sessions/${session}/cmd`, { command: "true" });
const resume = (name: string) => get(`/v2/sandboxes/${name}?resume=true`);
const remove = (name: string) => raw(daemon(), "DELETE", `/v2/sandboxes/${name}`);

interface Made {
  name: string;
  session: string;
}

async function made(options: { running?: boolean } = {}): Promise<Made> {
  const { json } = await post("/v3/sandboxes", { name: `race-${++count}` });
  const { sandbox, session } = json;
  await post(`/v2/sandboxes/sessions/${session.id}/cmd`, {
    command: "sh",
    args: ["-c", "echo kept > file"],
    wait: true,
  });
  if (options.running === false) await stop(session.id);
  return { name: sandbox.name, session: session.id };
}

/** starts each a little later than the one before, with other delays each time */
async function together(round: number, ...calls: (() => Promise<RawAnswer>)[]): Promise<RawAnswer[]> {
  return Promise.all(
    calls.map(async (call, index) => {
      if (index > 0) await pause(round * index);
      return call();
    }),
  );
}

/** checks what must hold for a sandbox after any race: at most one session, all others ended well, files kept */
async function expectSound({ name }: Made): Promise<void> {
  const { json } = await get(`/v2/sandboxes/sessions?name=${name}&limit=50`);
  const states: string[] = json.sessions.map(({ status }: { status: string }) => status);
  expect(states.filter((state) => state !== "stopped").length, states.join()).toBeLessThanOrEqual(1);
  expect(states).not.toContain("failed");
  expect(states).not.toContain("aborted");
  const running = await resume(name);
  expect(running, running.text).toMatchObject({ status: 200, json: { session: { status: "running" } } });
  const path = `/v2/sandboxes/sessions/${running.json.session.id}/fs/read`;
  expect(await post(path, { path: "file" })).toMatchObject({ status: 200, text: "kept\n" });
  expect((await remove(name)).status).toBe(200);
}

describe("two clients who", () => {
  test("stop the same session both get the same end", async () => {
    for (let round = 0; round < rounds; round++) {
      const it = await made();
      const answers = await together(
        round,
        () => stop(it.session),
        () => stop(it.session),
        () => stop(it.session),
      );
      for (const answer of answers) {
        expect(answer).toMatchObject({ status: 200, json: { session: { status: "stopped" } } });
        expect(answer.json.snapshot.id).toBe(answers[0]?.json.snapshot.id);
      }
      const { json } = await get(`/v2/sandboxes/snapshots?name=${it.name}`);
      expect(json.snapshots).toHaveLength(1);
      await expectSound(it);
    }
  });

  test("resume the same sandbox get the same session, which one of them began", async () => {
    for (let round = 0; round < rounds; round++) {
      const it = await made({ running: false });
      const answers = await together(round, ...Array.from({ length: 6 }, () => () => resume(it.name)));
      const sessions = new Set(answers.map(({ json }) => json.session.id));
      expect([...sessions]).toHaveLength(1);
      expect(answers.filter(({ json }) => json.resumed)).toHaveLength(1);
      await expectSound(it);
    }
  });

  test("stop and resume find it either stopped or running", async () => {
    for (let round = 0; round < rounds; round++) {
      const it = await made();
      const [stopped, resumed] = await together(
        round,
        () => stop(it.session),
        () => resume(it.name),
      );
      expect(stopped).toMatchObject({ status: 200, json: { session: { status: "stopped" } } });
      expect(resumed, resumed?.text).toMatchObject({ status: 200, json: { session: { status: "running" } } });
      await expectSound(it);
    }
  });

  test("take a snapshot of the same session get one snapshot, and one error with a reason", async () => {
    for (let round = 0; round < rounds; round++) {
      const it = await made();
      const answers = await together(
        round,
        () => snapshot(it.session),
        () => snapshot(it.session),
      );
      const taken = answers.filter(({ status }) => status === 201);
      expect(taken).toHaveLength(1);
      const [refused] = answers.filter(({ status }) => status !== 201);
      expect([410, 422]).toContain(refused?.status);
      expect(["sandbox_stopped", "sandbox_stopping", "sandbox_snapshotting"]).toContain(refused?.json.error.code);
      await expectSound(it);
    }
  });

  test("take a snapshot and stop leave it stopped, with a snapshot", async () => {
    for (let round = 0; round < rounds; round++) {
      const it = await made();
      const calls = [() => snapshot(it.session), () => stop(it.session)];
      const answers = await together(round, ...(round % 2 ? calls : calls.toReversed()));
      expect(answers.every(({ status }) => [200, 201, 410, 422].includes(status))).toBe(true);
      expect((await get(`/v2/sandboxes/${it.name}`)).json.sandbox).toMatchObject({
        status: "stopped",
        currentSnapshotId: expect.stringMatching(/^snap_/),
      });
      await expectSound(it);
    }
  });

  test("delete the same sandbox both find it gone", async () => {
    for (let round = 0; round < rounds; round++) {
      const it = await made({ running: round % 2 === 0 });
      const answers = await together(
        round,
        () => remove(it.name),
        () => remove(it.name),
      );
      const statuses = answers.map(({ status }) => status);
      expect(statuses).toContain(200);
      expect(statuses.every((status) => status === 200 || status === 404)).toBe(true);
      expect((await get(`/v2/sandboxes/${it.name}`)).status).toBe(404);
      expect((await post("/v3/sandboxes", { name: it.name })).status).toBe(200);
      await remove(it.name);
    }
  });

  test("delete and use it: it is gone, and nothing of it keeps running", async () => {
    for (let round = 0; round < rounds; round++) {
      const it = await made({ running: round % 2 === 0 });
      const uses = [() => resume(it.name), () => run(it.session), () => stop(it.session), () => snapshot(it.session)];
      const [removed, ...used] = await together(round, () => remove(it.name), ...uses);
      expect(removed?.status).toBe(200);
      expect(used.every(({ status }) => status < 500)).toBe(true);
      expect((await get(`/v2/sandboxes/${it.name}`)).status).toBe(404);
      const { json } = await get("/v2/sandboxes/sessions?limit=50");
      const sessions: { status: string; sourceSandboxName: string }[] = json.sessions;
      const states = sessions.filter((each) => each.sourceSandboxName === it.name).map(({ status }) => status);
      expect(states.length).toBeGreaterThan(0);
      expect(states.filter((state) => ["pending", "running", "stopping", "snapshotting"].includes(state))).toEqual([]);
    }
  });
});

test("of many clients that want the same name one gets it", async () => {
  const answers = await Promise.all(Array.from({ length: 10 }, () => post("/v3/sandboxes", { name: "wanted" })));
  expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array.from({ length: 9 }, () => 400)]);
  const { json } = await get("/v2/sandboxes?sortBy=name&namePrefix=wanted");
  expect(json.sandboxes).toHaveLength(1);
  await remove("wanted");
});

test("of many clients that want the same drive one makes it", async () => {
  const answers = await Promise.all(Array.from({ length: 10 }, () => post("/v2/sandboxes/drives/wanted", {})));
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
  expect(new Set(answers.map(({ json }) => json.drive.id)).size).toBe(1);
});

test("of many sessions that want to write to a drive one may", async () => {
  await post("/v2/sandboxes/drives/single", {});
  const body = { persistent: false, mounts: { "/data": { drive: "single", mode: "read-write" } } };
  const answers = await Promise.all(Array.from({ length: 5 }, () => post("/v3/sandboxes", body)));
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409, 409]);
  const [winner] = answers.filter(({ status }) => status === 200);
  await remove(winner?.json.sandbox.name);
  expect((await raw(daemon(), "DELETE", "/v2/sandboxes/drives/single")).status).toBe(200);
});

test.each(Object.entries(sdks))("50 sandboxes at once with SDK %s all run, each its own", async (_, { Sandbox }) => {
  const auth = { ...credentials(daemon()), fetch: fetchTo(daemon()), persistent: false };
  const sandboxes = await Promise.all(
    Array.from({ length: 50 }, (_, n) => Sandbox.create({ ...auth, env: { NUMBER: String(n) } })),
  );
  expect(new Set(sandboxes.map(({ name }) => name)).size).toBe(50);
  const outputs = await Promise.all(
    sandboxes.map(async (sandbox) => {
      const command = await sandbox.runCommand("sh", ["-c", "echo $NUMBER > file; cat file"]);
      return command.stdout();
    }),
  );
  expect(outputs).toEqual(Array.from({ length: 50 }, (_, n) => `${n}\n`));
  await Promise.all(sandboxes.map((sandbox) => sandbox.delete()));
});
