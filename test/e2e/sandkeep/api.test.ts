/**
 * The daemon's own API, from its OpenAPI document alone: a story uses every operation with valid requests, and every
 * answer fits the document. Then each operation gets every kind of invalid request that its schemas allow to make.
 */

import { cpus, totalmem } from "node:os";
import { beforeAll, describe, expect, test } from "vitest";
import { SandkeepClient } from "../../../src/client/client.ts";
import { daemonOfFile } from "../../harness/daemon.ts";
import { tarOfFiles } from "../../harness/images/image-archives.ts";
import { auditOfBoth } from "./audit-story.ts";
import { compareSnapshots } from "./comparison.ts";
import { DocumentClient, linesOf, parametersOf, type Received, type Sent } from "./document.ts";
import { imageNames } from "./image-names.ts";
import { expectRefusal, invalidRequests, minimal } from "./invalid-requests.ts";
import { changedSnapshot } from "./snapshot-settings.ts";
import { tapeSoFar } from "./tape.ts";
import { endOfTeam, teamsAndKeys, webhooks } from "./team-stories.ts";
import { attachedTo } from "./terminal.ts";

const daemon = daemonOfFile();
let api: DocumentClient;
/** ids and names of things of the first team, by the names in paths */
const things: Record<string, string> = { sandbox: "story", drive: "data", project: "default", port: "3000" };
let foreignKey = "";

beforeAll(async () => {
  api = await DocumentClient.of(daemon());
  api.repeats = true;
});

const call = (id: string, sent: Sent = {}) => api.call(id, { params: things, ...sent });

/** also asks at the path of the sandbox, which must give the same answer */
async function read(id: string, sent: Sent = {}): Promise<Received> {
  const bySession = await call(id, sent);
  const bySandbox = await call(`${id}InSandbox`, sent);
  expect(bySandbox.text).toBe(bySession.text);
  return bySession;
}

describe("valid requests", () => {
  test("a sandbox is created, found, listed and counted", async () => {
    const body = {
      name: "story",
      tags: { suite: "api" },
      env: { GREETING: "hello" },
      ports: [3000],
      networkPolicy: "deny-all",
      timeout: 600_000,
    };
    const headers = { "idempotency-key": "once" };
    const first = await call("createSandbox", { body, headers });
    expect(first.status).toBe(201);
    expect(first.json).toMatchObject({
      name: "story",
      state: "running",
      envNames: ["GREETING"],
      tags: { suite: "api" },
      networkPolicy: { mode: "deny-all" },
      ports: [{ port: 3000, url: expect.stringContaining("http") }],
      session: { state: "running", sandbox: "story" },
      madeBy: { keyId: expect.stringMatching(/^key_/), wire: "sandkeep" },
    });
    things.session = first.json.session.id;
    // The same request again gets the first answer; another one under this key is refused.
    expect((await call("createSandbox", { body, headers })).json).toEqual(first.json);
    expect((await api.send("createSandbox", { body: { name: "other" }, headers })).status).toBe(400);
    expect((await api.send("createSandbox", { body })).json.error).toMatchObject({ code: "name_taken" });
    expect((await call("getSandbox")).json).toEqual(first.json);
    expect((await call("listSandboxes", { query: { tag: "suite=api" } })).json.sandboxes).toEqual([first.json]);
    expect((await call("countSandboxes", { query: { state: ["running", "paused"] } })).json).toEqual({ count: 1 });
    expect((await call("countSandboxes", { query: { image: "none" } })).json).toEqual({ count: 0 });
    const query = { sandbox: ["story", "nothing"], lately: 60_000 };
    const { activity } = (await call("listActivity", { query })).json;
    const load = { processors: expect.any(Number), memory: expect.any(Number), processes: expect.any(Number) };
    const more = { session: expect.stringMatching(/^sbx_/), traffic: { bytesIn: 0, bytesOut: 0 } };
    expect(activity).toEqual([{ sandbox: "story", command: null, load, samples: expect.any(Array), ...more }]);
  });

  test("pages of a list have a cursor, and a cursor of another list is refused", async () => {
    for (const name of ["page-1", "page-2"]) await call("createSandbox", { body: { name, persistent: false } });
    const query = { namePrefix: "page-", sortBy: "name", order: "asc", limit: 1 };
    const first = (await call("listSandboxes", { query })).json;
    const second = (await call("listSandboxes", { query: { ...query, cursor: first.next } })).json;
    const names = [first, second].flatMap(({ sandboxes }) => sandboxes.map(({ name }: { name: string }) => name));
    expect([names, second.next]).toEqual([["page-1", "page-2"], null]);
    const other = await api.send("listSandboxes", { query: { ...query, namePrefix: "x", cursor: first.next } });
    expect(other.status).toBe(400);
    for (const name of names) await call("deleteSandbox", { params: { sandbox: name }, query: { snapshots: true } });
  });

  test("a sandbox is changed, and its session extended", async () => {
    const changed = await call("changeSandbox", { body: { tags: { suite: "changed" }, timeout: 900_000 } });
    expect(changed.json).toMatchObject({ tags: { suite: "changed" }, timeout: 900_000 });
    const before = (await call("getSession")).json.expiresAt;
    expect((await call("extendSession", { body: { duration: 60_000 } })).json.expiresAt).toBe(before + 60_000);
    expect((await call("listSessions", { query: { sandbox: "story", open: true } })).json.sessions).toHaveLength(1);
    await call("getUsage");
    expect((await call("getLoad")).json.memory).toBeGreaterThan(0);
    expect((await read("listUsageSamples", { query: { to: 1, step: 60_000 } })).json.samples).toEqual([]);
  });

  test("a command is started, written to, followed from an offset, signalled and waited for", async () => {
    const body = { command: "sh", args: ["-c", 'echo "$GREETING"; cat; echo end >&2'], stdin: true };
    const started = (await call("startCommand", { body })).json;
    things.command = started.id;
    const input = { data: "aGkK", encoding: "base64", offset: 0 };
    expect((await call("writeInput", { body: input })).json).toEqual({ taken: 3, complete: true });
    expect((await call("writeInput", { body: { ...input, close: true } })).json).toEqual({ taken: 3, complete: true });
    const lines = linesOf((await read("readOutput", { query: { follow: true } })).text);
    expect(lines.flatMap(({ stream, data }) => [stream, data]).join("")).toBe("stdouthello\nstdouthi\nstderrend\n");
    const rest = linesOf((await call("readOutput", { query: { from: 6, encoding: "base64" } })).text);
    expect(Buffer.from(String(rest[0]?.data), "base64").toString()).toBe("hi\n");
    expect((await read("waitForCommand")).json).toMatchObject({ id: started.id, exitCode: 0 });
    expect((await read("getCommand")).json).toMatchObject({ command: "sh", exitCode: 0, endCause: null });

    const terminal = { rows: 24, columns: 80 };
    const shell = (await call("startCommand", { body: { command: "sh", args: ["-i"], terminal } })).json;
    const params = { ...things, command: shell.id };
    await call("resizeTerminal", { params, body: { rows: 30, columns: 100 } });
    expect((await call("waitForCommand", { params, query: { timeout: 0 } })).json.exitCode).toBeNull();
    await call("signalCommand", { params, body: { signal: "SIGKILL" } });
    expect((await call("waitForCommand", { params })).json.exitCode).toBe(137);
    const page = (await read("listCommands", { query: { limit: 1 } })).json;
    expect([page.commands[0].id, page.next]).toEqual([shell.id, expect.any(String)]);
    const older = (await call("listCommands", { query: { limit: 1, cursor: page.next } })).json;
    expect([older.commands[0].id, older.next]).toEqual([started.id, null]);
  });

  test("the tape has what happened so far, in at most as many buckets as asked for", () =>
    tapeSoFar(api, call, things));

  test("one request makes a sandbox, runs a program and deletes the sandbox, unless it is kept", async () => {
    const program = { command: "sh", args: ["-c", "echo out; exit 5"] };
    const run = async (body: object) => linesOf((await call("runProgram", { body, headers: {} })).text);
    const [sandbox, out, ended] = [{ name: "brief" }, { data: "out\n" }, { type: "ended", command: { exitCode: 5 } }];
    expect(await run({ sandbox, program })).toMatchObject([{ type: "started", sandbox }, out, ended]);
    expect((await api.send("runProgram", { body: { sandbox, program: { command: "/none" } } })).status).toBe(400);
    await run({ sandbox, program, keep: true });
    await call("deleteSandbox", { params: { sandbox: "brief" } });
  });

  test("files are written, read in parts, moved, listed, archived both ways, watched and removed", async () => {
    const bytes = Buffer.from("0123456789");
    const written = await call("writeFile", { query: { path: "/tmp/api/a.bin" }, bytes });
    expect(written.json).toMatchObject({ path: "/tmp/api/a.bin", size: 10, type: "file" });
    const part = await api.send("readFile", {
      params: things,
      query: { path: "/tmp/api/a.bin" },
      headers: { range: "bytes=2-4" },
    });
    expect([part.status, part.text, part.headers.get("content-range")]).toEqual([206, "234", "bytes 2-4/10"]);
    const range = { range: "bytes=10-" };
    expect(
      (await api.send("readFile", { params: things, query: { path: "/tmp/api/a.bin" }, headers: range })).status,
    ).toBe(416);
    expect((await read("readFile", { query: { path: "/tmp/api/a.bin" } })).text).toBe("0123456789");
    await call("makeDirectory", { body: { path: "/tmp/api/b" } });
    expect((await call("moveFile", { body: { from: "/tmp/api/a.bin", to: "/tmp/api/b/c.bin" } })).json.size).toBe(10);
    const { files } = (await read("listFiles", { query: { path: "/tmp/api", depth: 2 } })).json;
    expect(files.map(({ path }: { path: string }) => path)).toEqual(["/tmp/api/b", "/tmp/api/b/c.bin"]);
    expect((await read("statFile", { query: { path: "/tmp/api/b" } })).json.type).toBe("directory");

    const watch = await api.request(api.operation("watchFiles"), { params: things, query: { path: "/tmp/api" } });
    const changes = watch.body?.pipeThrough(new TextDecoderStream()).getReader();
    await call("writeArchive", {
      query: { path: "/tmp/api" },
      bytes: await tarOfFiles({ "d.txt": Buffer.from("in a tar") }),
    });
    expect(linesOf((await changes?.read())?.value ?? "")[0]).toMatchObject({ path: "/tmp/api/d.txt" });
    await changes?.cancel();
    api.succeeded.add("watchFiles");
    expect((await call("readFile", { query: { path: "/tmp/api/d.txt" } })).text).toBe("in a tar");
    expect((await call("readArchive", { query: { path: "/tmp/api" } })).text).toContain("in a tar");
    await call("readArchive", { query: { path: "/tmp/api", gzip: true } });
    await call("removeFile", { query: { path: "/tmp/api" } });
    expect((await api.send("statFile", { params: things, query: { path: "/tmp/api" } })).status).toBe(404);
  });

  test("ports get addresses, and the network policy changes at once", async () => {
    expect((await call("openPort", { params: { ...things, port: "8080" } })).json.port).toBe(8080);
    await call("closePort", { params: { ...things, port: "8080" } });
    expect((await call("listPorts")).json.ports).toHaveLength(1);
    const networkPolicy = {
      mode: "custom",
      domains: [{ domain: "api.test", rules: [{ action: { kind: "set-headers", headers: { "x-key": "sealed" } } }] }],
    };
    const changed = await call("setNetworkPolicy", { body: { networkPolicy } });
    expect(changed.text).not.toContain("sealed");
    expect(changed.json.networkPolicy.domains).toEqual([
      { domain: "api.test", rules: [{ kind: "set-headers", headerNames: ["x-key"] }] },
    ]);
    expect((await call("getSandbox")).json.networkPolicy).toEqual(changed.json.networkPolicy);
    const own = await call("setSessionNetworkPolicy", { body: { networkPolicy: "b.test, 203.0.113.0/24" } });
    expect(own.json.networkPolicy).toMatchObject({ mode: "custom", allowedCidrs: ["203.0.113.0/24"] });
    expect((await read("readEgressLog")).json.session.sandbox).toBe("story");
    await read("suggestPolicy");
    const wget = { command: "wget", args: ["-qT1", "http://203.0.113.9:81/"] };
    const { id: command } = (await call("startCommand", { body: wget })).json;
    await call("waitForCommand", { params: { ...things, command } });
    const refused = () => call("listEgress", { query: { refused: true, limit: 1 } });
    await expect.poll(async () => (await refused()).json.events[0]?.port).toBe(81);
    expect((await refused()).json.events).toMatchObject([
      { sandbox: "story", session: things.session, allowed: false },
    ]);
    expect((await api.send("listEgress", { query: { cursor: "none" } })).status).toBe(400);
  });

  test("a running sandbox is captured and forked; snapshots have a tree, and become images", async () => {
    const snapshot = (await call("createSnapshot", { body: { name: "first" } })).json;
    things.snapshot = snapshot.id;
    expect(snapshot).toMatchObject({ name: "first", method: "manual", sandbox: "story" });
    expect((await call("getSnapshot")).json.id).toBe(snapshot.id);
    await changedSnapshot(call);
    const fork = (await call("forkSandbox", { body: { name: "fork" } })).json;
    expect(fork.session.sourceSnapshotId).toMatch(/^snap_/);
    await call("deleteSandbox", { params: { sandbox: "fork" }, query: { snapshots: true } });
    expect((await call("listSnapshots", { query: { name: "first" } })).json.snapshots).toHaveLength(1);
    expect((await call("getSnapshotTree")).json.anchor.snapshot.id).toBe(snapshot.id);
    expect((await call("createImageFromSnapshot", { body: { name: "story-image" } })).json.image.name).toBe(
      "story-image",
    );
    const { images } = (await call("listImages")).json;
    expect(images).toContainEqual(expect.objectContaining({ name: "story-image", own: true, source: null }));
    const made = await call("createSandbox", { body: { name: "of-image", image: "story-image" } });
    expect(made.json.image).toBe("story-image");
    await call("deleteSandbox", { params: { sandbox: "of-image" }, query: { snapshots: true } });
    await call("deleteImage", { query: { name: "story-image" } });
  });

  test("the files of a snapshot are compared with the sandbox, and with another snapshot", () =>
    compareSnapshots(api, call));

  test("a sandbox is paused, resumed, stopped and resumed with its files", async () => {
    await call("writeFile", { query: { path: "/tmp/kept" }, bytes: Buffer.from("kept") });
    expect((await call("pauseSession")).json.state).toBe("paused");
    expect((await call("resumeSandbox", { body: {} })).json.session.id).toBe(things.session);
    expect((await call("stopSession")).json).toMatchObject({ state: "stopped", endCause: "asked" });
    expect((await api.send("startCommand", { params: things, body: { command: "true" } })).json.error.code).toBe(
      "stopped",
    );
    const resumed = (await call("resumeSandbox", { body: { timeout: 600_000 } })).json;
    expect(resumed.session.id).not.toBe(things.session);
    things.session = resumed.session.id;
    expect((await call("readFile", { query: { path: "/tmp/kept" } })).text).toBe("kept");
    // The command of the earlier session is still there under the sandbox.
    expect((await call("getCommandInSandbox")).json.exitCode).toBe(0);
  });

  test("drives are made, resized, forked and deleted", async () => {
    const drive = (await call("putDrive", { body: { maxSize: 2 ** 30 } })).json;
    expect(drive).toMatchObject({ name: "data", maxSize: 2 ** 30 });
    expect((await call("putDrive", { body: {} })).json).toEqual(drive);
    expect((await call("resizeDrive", { body: { maxSize: 2 ** 31 } })).json.maxSize).toBe(2 ** 31);
    expect((await call("forkDrive", { body: { name: "copy" } })).json.parentId).toBe(drive.id);
    await call("deleteDrive", { params: { drive: "copy" } });
    expect((await call("listDrives", { query: { sortBy: "name" } })).json.drives).toHaveLength(1);
    expect((await call("getDrive")).json.id).toBe(drive.id);
  });

  test("an image is built from files and exported", async () => {
    const files = { Dockerfile: Buffer.from("FROM scratch\nCOPY word /word\n"), word: Buffer.from("in the image") };
    const built = await call("buildImage", { query: { name: "built" }, bytes: await tarOfFiles(files) });
    expect(linesOf(built.text).at(-1)).toMatchObject({ type: "built", image: { name: "built" } });
    const shown = await call("getImage", { query: { name: "built:latest" } });
    expect(shown.json).toMatchObject({
      ...{ name: "built", own: true, source: null, parts: null, env: expect.any(Object), labels: {}, volumes: [] },
      history: [{ createdBy: "COPY word /word", comment: null, createdAt: expect.any(Number), isEmpty: false }],
    });
    const byDigest = await call("getImage", { query: { name: `any@${shown.json.digest}` } });
    expect(byDigest.json).toEqual(shown.json);
    expect((await call("exportImage", { query: { name: "built" } })).text).toContain("oci-layout");
    await imageNames(api, call);
  });

  test("events are a page, JSON lines or server-sent events, by topic and after a cursor", async () => {
    const { events } = (await call("readEvents", { query: { topics: "sandbox,drive" } })).json;
    expect(new Set(events.map(({ type }: { type: string }) => type.split(".")[0]))).toEqual(
      new Set(["sandbox", "drive"]),
    );
    const { cursor } = events.at(-2);
    const headers = { accept: "text/event-stream", "last-event-id": cursor };
    const operation = api.operation("readEvents");
    const stream = await api.request(operation, { headers, query: { topics: "sandbox,drive" } });
    expect(stream.headers.get("content-type")).toBe("text/event-stream");
    const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    while (!text.includes("data:")) text += (await reader?.read())?.value ?? "";
    await reader?.cancel();
    const last = events.at(-1);
    expect(text).toContain(`id: ${last.cursor}\nevent: ${last.type}\ndata: `);
  });

  test("a webhook is made, changed, tested and deleted; its secret is shown once", () => webhooks(call, things));

  test("teams, projects and keys; a key of one team finds nothing of another", async () => {
    foreignKey = await teamsAndKeys(api, call, things);
  });

  test("a team is deleted with force if it has something, and its keys and names end with it", () =>
    endOfTeam(api, call));

  test("the audit has each change of every team, where it came from, and no secret", () =>
    auditOfBoth(api, call, things, [foreignKey, daemon().key]));

  test("the host's numbers, and an upgrade", async () => {
    const { machines, processors, memory, disk } = (await call("getCapacity")).json;
    expect(machines.running).toBeGreaterThan(0);
    expect(processors.count).toBe(cpus().length);
    // The daemon itself has just worked.
    expect(processors.busy).toBeGreaterThan(0);
    expect(processors.busy).toBeLessThanOrEqual(processors.count);
    expect(memory.total).toBe(totalmem());
    expect(memory.available).toBeLessThan(memory.total);
    for (const { total, free } of disk.places) expect(free).toBeLessThan(total);
    const { ok, isolation, findings } = (await call("getDiagnosis")).json;
    expect([ok, isolation.length > 0]).toEqual([true, true]);
    expect(findings).toContainEqual(expect.objectContaining({ name: "user", state: "ok", detail: "root", fix: null }));
    for (const id of ["getCapacity", "getDiagnosis"]) {
      expect((await api.send(id, { key: foreignKey })).status).toBe(403);
    }
    await call("upgradeHost");
  });

  test("were made to every operation of the document", () => {
    const missed = [...api.operations.keys()].filter((id) => !api.succeeded.has(id.replace(/InSandbox$/, "")));
    // ../images/pulls-by-api.test.ts has registries to pull from.
    expect(missed).toEqual(["pullImage", "deleteWebhook", "deleteKey"]);
    const posts = [...api.operations.values()].filter(({ method }) => method === "post");
    const ids = posts.map(({ operationId }) => operationId).filter((id) => !id.endsWith("InSandbox"));
    // A build has a body of bytes. The answer of a run is a stream; strangers.test.ts repeats one.
    expect(ids.filter((id) => !api.repeated.has(id))).toEqual(["runProgram", "buildImage", "pullImage"]);
  });
});

describe("a key of another team", () => {
  test("gets 404 for every id of the first team, and changes nothing", async () => {
    const before = await everything();
    for (const operation of api.operations.values()) {
      const named = parametersOf(operation, "path").filter(({ name }) => name !== "key");
      if (named.length === 0) continue;
      const sent = { ...minimal(api, operation), params: { ...things, project: "prj_default" }, key: foreignKey };
      // A new drive of that name is their own.
      if (operation.operationId === "putDrive") continue;
      const { status, text } = await api.send(operation.operationId, sent);
      const isKnown = ["getProject", "deleteTeam"].includes(operation.operationId);
      expect([operation.operationId, status, text]).toEqual([operation.operationId, isKnown ? 403 : 404, text]);
    }
    expect(await everything()).toEqual(before);
  });
});

describe("invalid requests", () => {
  test("are refused with a sentence that names the field, and change nothing", async () => {
    const before = await everything();
    for (const operation of api.operations.values()) {
      await Promise.all(
        invalidRequests(api, operation, things).map(([why, sent]) =>
          expectRefusal(api, operation, why, { params: things, ...sent }),
        ),
      );
    }
    expect(await everything()).toEqual(before);
  });
});

describe("live", () => {
  test("clients share a terminal, and attach again after a restart without missing a byte", async () => {
    const client = new SandkeepClient(daemon());
    const params = { sandbox: "story" };
    const events = client.events({ topics: "command,session" });
    const seen = events.next();
    const body = { command: "sh", terminal: { rows: 24, columns: 80 }, env: { PS1: "> " } };
    const { id: command } = await client.call("startCommand", { params, body });
    expect((await seen).value).toMatchObject({ type: "command.started", commandId: command });
    await using first = await attached(command);
    await using second = await attached(command);
    first.socket.send(JSON.stringify({ type: "resize", rows: 33, columns: 111 }));
    first.socket.send(Buffer.from("stty size; echo $((6*7))\n"));
    for (const one of [first, second]) await expect.poll(one.output).toMatch(/33 111\r\n42\r\n> $/);
    const there = first.output().length;
    const again = events.next();
    await daemon().kill9();
    await daemon().start();
    // Events of the earlier run are lost, and the client is told so.
    expect((await again).value).toMatchObject({ type: "gap" });
    await events.return?.(undefined);
    await using third = await attached(command, there);
    third.socket.send(Buffer.from("exit 5\n"));
    await expect.poll(third.messages).toContainEqual(expect.objectContaining({ type: "exit", exitCode: 5 }));
    await using whole = await attached(command);
    await expect.poll(whole.output).toBe(second.output() + third.output());
    expect((await client.call("getCommand", { params: { ...params, command } })).exitCode).toBe(5);
  });

  test("a terminal is refused without a key, with a read-only key, and with another team's", async () => {
    const { secret } = (await call("createKey", { body: { name: "reader", readOnly: true } })).json;
    for (const key of ["sk_wrong", secret, foreignKey])
      await expect(attached(things.command ?? "", 0, key)).rejects.toThrow();
  });
});

const attached = (command: string, from = 0, key = daemon().key) =>
  attachedTo(`${daemon().url}/sandkeep/v1/sandboxes/story/commands/${command}/terminal?from=${from}`, key);

describe("the last operations", () => {
  test("delete a snapshot, a key and the sandbox", async () => {
    await call("deleteSnapshot");
    expect((await call("getSnapshot")).json.state).toBe("deleted");
    await call("deleteKey", { query: { team: "second" } });
    expect((await api.send("listKeys", { key: foreignKey })).status).toBe(401);
    await call("deleteSandbox", { query: { snapshots: true } });
    await call("deleteDrive");
    await call("deleteWebhook");
  });

  test("the reference page shows every operation, and loads nothing", async () => {
    const page = await fetch(`${daemon().url}/sandkeep/v1/reference`);
    expect(page.headers.get("content-security-policy")).toMatch(/^default-src 'none'; style-src 'sha256-/);
    const html = await page.text();
    for (const id of api.operations.keys()) expect(html).toContain(`id="${id}"`);
    expect(html).not.toMatch(/<script|src=/);
  });
});

/** all that invalid requests could change */
async function everything(): Promise<unknown> {
  const lists = [
    "listSandboxes",
    "listSessions",
    "listSnapshots",
    "listDrives",
    "listKeys",
    "listImages",
    "listTeams",
    "listWebhooks",
  ];
  const answers = await Promise.all([...lists, "listProjects", "listPorts"].map((id) => call(id)));
  const commands = await call("listCommands");
  const files = await call("listFiles", { query: { path: "/tmp", depth: 3 } });
  // The last use of a key changes with every request.
  return [...answers, commands, files].map(({ text }) => text.replaceAll(/"lastUsedAt":\w+/g, ""));
}
