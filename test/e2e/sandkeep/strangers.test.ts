/**
 * Attempts of a stranger who knows only the OpenAPI document: keys that may not change things or have expired, bodies that
 * are too large, cursors of other lists, equal requests at the same time, and misuse of a terminal's WebSocket.
 */

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { DocumentClient, linesOf, parametersOf } from "./document.ts";
import { minimal } from "./invalid-requests.ts";
import { attachedTo } from "./terminal.ts";

const daemon = daemonOfFile();
let api: DocumentClient;
const things: Record<string, string> = { sandbox: "target", drive: "data", port: "3000", project: "default" };

beforeAll(async () => {
  api = await DocumentClient.of(daemon());
  const made = (await api.call("createSandbox", { body: { name: "target", timeout: 3_600_000 } })).json;
  things.session = made.session.id;
  await api.call("putDrive", { params: { drive: "data" }, body: {} });
  const shell = { command: "sh", terminal: { rows: 24, columns: 80 }, env: { PS1: "> " } };
  things.command = (await api.call("startCommand", { params: things, body: shell })).json.id;
  things.snapshot = (await api.call("createSnapshot", { params: things, body: {} })).json.id;
  things.webhook = (await api.call("createWebhook", { body: { url: "https://hook.invalid/" } })).json.webhook.id;
  things.delivery = (await api.call("testWebhook", { params: things })).json.id;
});

const newKey = async (limits: object) =>
  (await api.call("createKey", { body: { name: "limited", ...limits } })).json as {
    secret: string;
    key: { id: string };
  };

/** what a refused request could have changed */
async function everything(): Promise<string[]> {
  const lists = ["listSandboxes", "listSessions", "listSnapshots", "listDrives", "listWebhooks", "listProjects"];
  const answers = await Promise.all(lists.map((id) => api.call(id)));
  const commands = await api.call("listCommands", { params: things });
  return [...answers, commands].map(({ text }) => text);
}

test("a key that may only read, or only use another project, changes nothing with any operation", async () => {
  await api.call("createProject", { body: { name: "other" } });
  const reader = await newKey({ readOnly: true });
  const elsewhere = await newKey({ project: "other" });
  things.key = reader.key.id;
  const before = await everything();
  const wrong: unknown[] = [];
  for (const operation of api.operations.values()) {
    if (operation.method === "get") continue;
    const sent = { ...minimal(api, operation), params: { ...things, team: "default" } };
    const { status, text } = await api.send(operation.operationId, { ...sent, key: reader.secret });
    if (status !== 403) wrong.push([operation.operationId, "reader", status, text.slice(0, 200)]);
    const isAbout = parametersOf(operation, "path").some(({ name }) => name !== "key" && name !== "team");
    // Without an id, and with a new name, a request is about the key's own project.
    if (!isAbout || operation.operationId === "putDrive") continue;
    const other = await api.send(operation.operationId, { ...sent, key: elsewhere.secret });
    if (other.status !== 403 && other.status !== 404) wrong.push([operation.operationId, "project", other.status]);
  }
  expect(wrong).toEqual([]);
  expect(await everything()).toEqual(before);
});

test("an expired key is unknown, and what it opened ends", async () => {
  const { secret } = await newKey({ expiresAt: Date.now() + 20_000 });
  const stream = await api.request(api.operation("readEvents"), { query: { follow: true }, key: secret });
  const reading = stream.body?.getReader();
  // The connection is closed in the middle of the answer.
  const read = async () => (await reading?.read().catch(() => undefined))?.done ?? true;
  for (let done = false; !done; ) done = await read();
  expect((await api.send("listSandboxes", { key: secret })).status).toBe(401);
  await expect(attached(secret)).rejects.toThrow("refused");
}, 120_000);

test("bodies that are too large or too deep are refused with a sentence", async () => {
  const bodies = [
    JSON.stringify({ name: "x", tags: { a: "y".repeat(5 << 20) } }),
    `{"name":"x","tags":${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}}`,
  ];
  for (const body of bodies) {
    const { status, json } = await api.send("createSandbox", { body });
    expect([body.slice(0, 20), status >= 400 && status < 500, json.error.message]).toEqual([
      body.slice(0, 20),
      true,
      expect.any(String),
    ]);
  }
});

test("a cursor of another list, order or team, or one that was changed, is refused", async () => {
  for (const name of ["p1", "p2"]) await api.call("putDrive", { params: { drive: name }, body: {} });
  const { next } = (await api.call("listDrives", { query: { limit: 1 } })).json;
  const flipped = `${next.slice(0, -2)}${next.at(-2) === "A" ? "B" : "A"}${next.at(-1)}`;
  const decoded = Buffer.from(next, "base64url").toString();
  const forged = Buffer.from(decoded.replace(/\d{13}/, "'; drop table drives; --")).toString("base64url");
  const others: [string, object][] = [
    ["listSandboxes", { cursor: next }],
    ["listDrives", { cursor: next, order: "asc" }],
    ["listDrives", { cursor: next, sortBy: "name" }],
    ["listDrives", { cursor: next, project: "other" }],
    ["listDrives", { cursor: forged }],
    ["listAudit", { cursor: next }],
    ["listEgress", { cursor: next }],
    ["listDrives", { cursor: "%00" }],
    ["listDrives", { cursor: `${"9".repeat(1000)}` }],
    ["readEvents", { after: next }],
  ];
  for (const [id, query] of others) {
    const { status, text } = await api.send(id, { query: { ...query } });
    expect([id, JSON.stringify(query), status, text]).toEqual([id, JSON.stringify(query), 400, text]);
  }
  expect([200, 400]).toContain((await api.send("listDrives", { query: { cursor: flipped } })).status);
});

test("of equal requests at the same time with one idempotency key, one makes something and all get it", async () => {
  const headers = { "idempotency-key": "at-once" };
  const body = { persistent: false };
  const count = async () => (await api.call("countSandboxes")).json.count;
  const before = await count();
  const answers = await Promise.all(Array.from({ length: 8 }, () => api.send("createSandbox", { body, headers })));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]));
  expect(new Set(answers.map(({ json }) => json.id)).size).toBe(1);
  expect(await count()).toBe(before + 1);
  // The key of a limited caller is another one.
  const { secret } = await newKey({ project: "other" });
  const own = await api.send("createSandbox", { body, headers, key: secret });
  expect([own.status, own.json.id === answers[0]?.json.id]).toEqual([201, false]);
});

test("a repeated run continues with all lines of the first, and is refused once its sandbox is deleted", async () => {
  const headers = { "idempotency-key": "one-run" };
  const program = { command: "sh", args: ["-c", "echo one; while ! [ -e /tmp/go ]; do sleep 0.05; done; echo two"] };
  const body = { sandbox: { name: "one-run" }, program };
  const broken = await api.request(api.operation("runProgram"), { body, headers });
  const reader = broken.body?.getReader();
  const first = linesOf(Buffer.from((await reader?.read())?.value ?? "").toString())[0] as {
    command: { sessionId: string };
  };
  await reader?.cancel();
  const again = api.send("runProgram", { body, headers });
  const { sessionId: session } = first.command;
  await api.call("writeFile", { params: { session }, query: { path: "/tmp/go" }, bytes: new Uint8Array() });
  const lines = linesOf((await again).text);
  expect(lines[0]).toEqual(first);
  expect(lines.map(({ data = "" }) => data).join("")).toBe("one\ntwo\n");
  expect(lines.at(-1)).toMatchObject({ type: "ended", command: { exitCode: 0 } });
  expect((await api.send("getSandbox", { params: { sandbox: "one-run" } })).status).toBe(404);
  const late = await api.send("runProgram", { body, headers });
  expect([late.status, late.json.error.message]).toEqual([410, expect.stringContaining("its sandbox is deleted")]);
  expect((await api.send("runProgram", { body: { program }, headers })).status).toBe(400);
});

test("the answer with a new key is repeated for the key that made it only, and is in no file in the clear", async () => {
  const headers = { "idempotency-key": "new-key" };
  const body = { name: "repeated" };
  const { secret } = (await api.call("createKey", { body, headers })).json;
  expect((await api.call("createKey", { body, headers })).json.secret).toBe(secret);
  const other = (await newKey({})).secret;
  expect((await api.send("createKey", { body, headers, key: other })).json.secret).not.toBe(secret);
  const files = (await readdir(daemon().dataDir)).filter((name) => name.startsWith("sandkeep.db"));
  expect(files.length).toBeGreaterThan(0);
  for (const name of files) expect((await readFile(join(daemon().dataDir, name))).includes(secret), name).toBe(false);
  expect((await api.send("buildImage", { bytes: new Uint8Array(), headers })).json.error.message).toContain(
    "body of bytes",
  );
});

test("nonsense on a terminal's WebSocket ends that connection and nothing else", async () => {
  const nonsense = [
    "nonsense",
    "{",
    "[]",
    '{"type":"resize"}',
    '{"type":"resize","rows":1e9,"columns":-1}',
    JSON.stringify({ type: "resize", rows: 24, columns: 80, ["日".repeat(200)]: 1 }),
    JSON.stringify({ type: "日".repeat(200) }),
    "[".repeat(100_000),
  ];
  for (const text of nonsense) {
    await using one = await attached();
    const closed = new Promise<CloseEvent>((resolve) => one.socket.addEventListener("close", resolve));
    one.socket.send(text);
    expect([text.slice(0, 40), (await closed).code]).toEqual([text.slice(0, 40), expect.any(Number)]);
  }
  for (const query of ["from=-1", "from=x", "from=1e99", "surprise=1", "team=none"]) {
    await expect(attached(daemon().key, query)).rejects.toThrow("refused");
  }
  await using last = await attached();
  await using beyond = await attached(daemon().key, "from=99999999999");
  last.socket.send(Buffer.from("echo $((6*7))\n"));
  for (const one of [last, beyond]) await expect.poll(one.output).toContain("42");
  const [{ offset, end }] = beyond.messages() as [{ offset: number; end: number }];
  expect([offset, end <= last.output().length]).toEqual([end, true]);
});

const attached = (key = daemon().key, query = "from=0") =>
  attachedTo(`${daemon().url}/sandkeep/v1/sandboxes/target/commands/${things.command}/terminal?${query}`, key);
