/** One sandbox through every API: created by one client, used by the next, ended by the last, visible to all. */

import { Sandbox } from "@vercel/sandbox";
import { Sandbox as E2bSandbox, Template } from "e2b";
import { Sandbox as Sandbox1 } from "vercel-sandbox-1";
import { Sandbox as VeryfrontSandbox } from "veryfront/sandbox";
import { afterAll, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { credentials, fetchTo, raw } from "../clients.ts";
import { instavm } from "../instavm/instavm.ts";
import { call, connect, eras, veryfrontPath } from "../mcp/mcp.ts";

const daemon = daemonOfFile();
const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());

test("a sandbox is the same through every API, until its end", async () => {
  const vercel = { ...credentials(daemon()), fetch: fetchTo(daemon()) };
  const veryfront = { apiUrl: daemon().url, authToken: daemon().key };
  const ask = instavm(daemon);
  const agents = await Promise.all(eras.map((era) => connect(daemon(), era, undo, veryfrontPath)));

  // Made with version 3 of Vercel's SDK, beside another one that no filter must find.
  const sandbox = await Sandbox.create({ ...vercel, name: "shared", tags: { team: "blue", run: "7" } });
  const other = await Sandbox.create({ ...vercel, name: "other", tags: { team: "red", run: "7" } });
  const { sessionId } = sandbox.currentSession();

  // Version 1 knows the session as the sandbox.
  const old = await Sandbox1.get({ ...vercel, sandboxId: sessionId });
  const command = await old.runCommand("sh", ["-c", "echo from version 1 > file; cat file"]);
  expect(await command.stdout()).toBe("from version 1\n");
  expect((await sandbox.readFileToBuffer({ path: "file" }))?.toString()).toBe("from version 1\n");

  // Veryfront's client reads the same file and sees the command.
  const attached = await VeryfrontSandbox.get(sessionId, veryfront);
  expect(await attached.readFile("file")).toBe("from version 1\n");
  expect((await attached.listBackgroundCommands()).map(({ id }) => id)).toEqual([command.cmdId]);

  // InstaVM finds it by its metadata, with the first session's id as the machine's.
  const found = async () => {
    const metadata = encodeURIComponent(JSON.stringify({ team: "blue", run: "7" }));
    const { status, json } = await ask("GET", `/v1/sessions/sandboxes?metadata=${metadata}`);
    expect(status).toBe(200);
    return json;
  };
  expect(await found()).toMatchObject([
    { sandbox_id: sessionId, metadata: { team: "blue", run: "7" }, status: "active", end_at: expect.any(String) },
  ]);

  // Agents see it, in both eras of the protocol.
  const listed = async () => {
    const answers = await Promise.all(agents.map((agent) => call(agent, "list_sandbox_sessions", {})));
    return answers.map((answer) =>
      (answer.data as { id: string; status: string }[]).map(({ id, status }) => ({ id, status })),
    );
  };
  const both = [
    { id: other.currentSession().sessionId, status: "running" },
    { id: sessionId, status: "running" },
  ];
  expect(await listed()).toEqual([both, both]);

  // Our own API also says who made it.
  const own = await raw(daemon(), "GET", "/sandkeep/v1/sandboxes/shared");
  expect(own.json.madeBy).toEqual({ keyId: expect.stringMatching(/^key_/), wire: "vercel" });

  // E2B's SDK finds it by its metadata, under an id that stays when sessions change.
  const e2b = { apiKey: daemon().key, apiUrl: daemon().url, sandboxUrl: daemon().url };
  const asE2b = () => E2bSandbox.list({ ...e2b, query: { metadata: { team: "blue", run: "7" } } }).nextItems();
  const [seen] = await asE2b();
  expect(seen).toMatchObject({ state: "running", metadata: { team: "blue", run: "7" } });

  // Paused through E2B: each API has a word for it, and says why commands do not run.
  await E2bSandbox.pause(seen?.sandboxId ?? "", e2b);
  const vercelWord = async () => (await Sandbox.get({ ...vercel, name: "shared", resume: false })).status;
  expect(await vercelWord()).toBe("stopped");
  expect((await Sandbox1.get({ ...vercel, sandboxId: sessionId })).status).toBe("stopped");
  expect(await found()).toMatchObject([{ sandbox_id: sessionId, status: "suspended", end_at: null }]);
  expect(await asE2b()).toMatchObject([{ sandboxId: seen?.sandboxId, state: "paused" }]);
  expect(await listed()).toEqual([both, both]);
  await expect(attached.readFile("file")).rejects.toThrow("is paused, and goes on when its sandbox is resumed");
  const refused = await raw(daemon(), "POST", `/v2/sandboxes/sessions/${sessionId}/cmd`, { body: { command: "true" } });
  expect(refused).toMatchObject({ status: 410, json: { error: { code: "sandbox_stopped" } } });
  // Its policy can be changed, and is in force when it goes on.
  const policy = await raw(daemon(), "POST", `/v2/sandboxes/sessions/${sessionId}/network-policy`, {
    body: { mode: "deny-all" },
  });
  expect(policy).toMatchObject({ status: 200, json: { session: { networkPolicy: { mode: "deny-all" } } } });
  // Vercel's SDK resumes it by itself, in the same session.
  expect((await sandbox.readFileToBuffer({ path: "file" }))?.toString()).toBe("from version 1\n");
  expect([await vercelWord(), sandbox.currentSession().sessionId]).toEqual(["running", sessionId]);
  const dialled = await sandbox.runCommand("bash", ["-c", "exec 3<>/dev/tcp/192.0.2.1/80"]);
  expect([dialled.exitCode, await dialled.stderr()]).toEqual([1, expect.stringContaining("Connection refused")]);

  // Ended through Veryfront; each API reports it in its own words.
  await attached.close();
  expect((await raw(daemon(), "GET", `/sandbox-sessions/${sessionId}`)).status).toBe(404);
  const after = await Sandbox.get({ ...vercel, name: "shared", resume: false });
  expect(after).toMatchObject({ status: "stopped", tags: { team: "blue", run: "7" } });
  expect((await Sandbox1.get({ ...vercel, sandboxId: sessionId })).status).toBe("stopped");
  expect(await found()).toMatchObject([{ sandbox_id: sessionId, status: "killed", end_at: null }]);
  expect(await listed()).toEqual([both.slice(0, 1), both.slice(0, 1)]);
  expect(await asE2b()).toMatchObject([{ sandboxId: seen?.sandboxId, state: "paused" }]);

  // It was created to keep its files: the next session has them, through every API again.
  await after.runCommand("true");
  const next = await VeryfrontSandbox.get(after.currentSession().sessionId, veryfront);
  expect(next.id).not.toBe(sessionId);
  expect(await next.readFile("file")).toBe("from version 1\n");
  expect(await found()).toMatchObject([
    { sandbox_id: next.id, status: "active" },
    { sandbox_id: sessionId, status: "killed" },
  ]);
  expect(await asE2b()).toMatchObject([{ sandboxId: seen?.sandboxId, state: "running" }]);

  // A snapshot that one API takes is what a sandbox of another starts from.
  const { snapshotId } = await E2bSandbox.createSnapshot(seen?.sandboxId ?? "", { ...e2b, name: "from-e2b" });
  const source = { type: "snapshot" as const, snapshotId: snapshotId.replace(/:default$/, "") };
  const copy = await Sandbox.create({ ...vercel, name: "copy", source });
  expect((await copy.readFileToBuffer({ path: "file" }))?.toString()).toBe("from version 1\n");
  const written = await copy.runCommand("sh", ["-c", "echo from version 3 > more; realpath more"]);
  const path = (await written.stdout()).trim();
  const taken = await copy.snapshot();
  const asTemplate = await E2bSandbox.create(taken.snapshotId, e2b);
  expect(await asTemplate.files.read(path)).toBe("from version 3\n");
  await asTemplate.kill();

  // A template that E2B's SDK built runs its start command for every API.
  const recipe = Template().fromBaseImage().setStartCmd("echo started > begun; sleep 1000", "test -s begun");
  await Template.build(recipe, "everywhere", e2b);
  const ofTemplate = await E2bSandbox.create("everywhere", { ...e2b, metadata: { team: "green" } });
  const green = encodeURIComponent(JSON.stringify({ team: "green" }));
  const [machine] = (await ask("GET", `/v1/sessions/sandboxes?metadata=${green}`)).json;
  const viewed = await VeryfrontSandbox.get(machine.sandbox_id, veryfront);
  expect(await viewed.readFile("begun")).toBe("started\n");
  await viewed.close();
  expect(await ofTemplate.isRunning()).toBe(false);

  // Killed through E2B, it is gone for all.
  expect(await E2bSandbox.kill(seen?.sandboxId ?? "", e2b)).toBe(true);
  expect(await asE2b()).toEqual([]);
  expect((await raw(daemon(), "GET", "/v2/sandboxes/shared")).status).toBe(404);

  // The audit has the changes through each of them.
  const { entries } = (await raw(daemon(), "GET", "/sandkeep/v1/audit?limit=1000&order=asc")).json;
  expect(entries[0]).toMatchObject({ wire: "vercel", action: "sandbox.create", target: "shared", outcome: "done" });
  expect(entries).toContainEqual(expect.objectContaining({ wire: "veryfront", action: "session.stop" }));
  for (const action of ["session.pause", "template.build", "sandbox.delete"]) {
    expect(entries).toContainEqual(expect.objectContaining({ wire: "e2b", action, outcome: "done" }));
  }
});
