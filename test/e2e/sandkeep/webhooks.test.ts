/**
 * Webhooks against a real receiver: signatures that the code in docs/webhooks.md accepts, retries, restarts and crashes of
 * the daemon, sending again, and addresses that must not be reached.
 */

import { readFile } from "node:fs/promises";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { root } from "../../harness/harness.ts";
import { Cli } from "./cli.ts";
import { DocumentClient, type Sent } from "./document.ts";

const daemon = daemonOfFile({ SANDKEEP_WEBHOOK_ALLOW: "127.0.0.0/8" });
let api: DocumentClient;

interface Message {
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
}
let received: Message[] = [];
/** answers by path; by default 204 */
let answer: (message: Message) => { status: number; headers?: Record<string, string> } = () => ({ status: 204 });
const receiver = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => {
    const message = { path: request.url ?? "", headers: request.headers, body: Buffer.concat(chunks).toString() };
    received.push(message);
    const { status, headers } = answer(message);
    response.writeHead(status, headers).end();
  });
});
let base = "";
type Verify = (secret: string, headers: IncomingHttpHeaders, body: string) => { type: string; data: { path?: string } };
let verified: Verify;

beforeAll(async () => {
  api = await DocumentClient.of(daemon());
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  base = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;
  const document = await readFile(join(root, "docs/webhooks.md"), "utf8");
  const [, code = ""] = /```js\n(.*?)```/s.exec(document) ?? [];
  ({ verified } = await import(`data:text/javascript,${encodeURIComponent(code)}`));
});
afterAll(() => receiver.close());
beforeEach(() => {
  received = [];
  answer = () => ({ status: 204 });
});

async function hook(path: string, body: object = {}) {
  const { json } = await api.call("createWebhook", { body: { url: `${base}${path}`, ...body } });
  const params = { webhook: json.webhook.id };
  const call = (id: string, sent: Sent = {}) => api.call(id, { params, ...sent });
  const deliveries = async () => (await call("listDeliveries", { query: { order: "asc" } })).json.deliveries;
  return { secret: json.secret as string, params, call, deliveries };
}

const drive = (name: string) => api.call("putDrive", { params: { drive: name }, body: {} });
const at = (path: string) => received.filter((message) => message.path === path);

test("an event comes signed, and the code of the documentation accepts it and nothing else", async () => {
  const { secret, call, deliveries } = await hook("/signed", { events: ["drive.created"] });
  await drive("signed");
  await expect.poll(() => at("/signed").length).toBe(1);
  const { headers, body } = at("/signed")[0] as Message;
  expect(verified(secret, headers, body)).toMatchObject({
    type: "drive.created",
    data: { drive: "signed", projectId: "prj_default", cursor: expect.any(String) },
  });
  expect(() => verified(secret, headers, `${body} `)).toThrow("signature");
  expect(() => verified(`${secret.slice(0, -4)}AAAA`, headers, body)).toThrow("signature");
  expect(() => verified(secret, { ...headers, "webhook-timestamp": "1" }, body)).toThrow("too old");
  await expect
    .poll(deliveries)
    .toMatchObject([{ id: headers["webhook-id"], state: "delivered", attempts: 1, status: 204 }]);
  // Other types are not sent, and the secret is never shown again.
  await api.call("deleteDrive", { params: { drive: "signed" } });
  const listed = await api.call("listWebhooks");
  expect(listed.text).not.toContain(secret);
  const fresh = (await call("rotateWebhookSecret")).json.secret;
  expect((await call("testWebhook")).json).toMatchObject({ type: "webhook.test", state: "delivered", status: 204 });
  const test = at("/signed").at(-1) as Message;
  expect(verified(fresh, test.headers, test.body).type).toBe("webhook.test");
  expect(at("/signed")).toHaveLength(2);
  await call("deleteWebhook");
});

test("a failed attempt is made again with the same id, and a delivery can be sent again", async () => {
  const { call, deliveries } = await hook("/flaky", { events: ["drive"] });
  let isWell = false;
  answer = () => ({ status: isWell ? 200 : 500 });
  await drive("flaky");
  await expect.poll(deliveries).toMatchObject([{ state: "waiting", status: 500, reason: "The receiver answered 500" }]);
  expect((await call("getWebhook")).json.failingSince).toEqual(expect.any(Number));
  isWell = true;
  await expect.poll(deliveries).toMatchObject([{ state: "delivered", status: 200, reason: null }]);
  const ids = at("/flaky").map(({ headers }) => headers["webhook-id"]);
  expect(new Set(ids).size).toBe(1);
  // Two, unless this test was so slow that it failed more than once.
  const attempts = ids.length;
  expect(attempts).toBeGreaterThan(1);
  expect(await deliveries()).toMatchObject([{ attempts }]);
  expect((await call("getWebhook")).json.failingSince).toBeNull();
  const params = { ...(await call("getWebhook")).json, webhook: (await call("getWebhook")).json.id, delivery: ids[0] };
  expect((await api.call("redeliver", { params })).json).toMatchObject({ attempts: attempts + 1, state: "delivered" });
  expect(at("/flaky")).toHaveLength(attempts + 1);
  // The state is that of the last attempt, also after one that succeeded.
  answer = () => ({ status: 503 });
  const failed = {
    state: "failed",
    status: 503,
    reason: "The receiver answered 503",
    dueAt: null,
    attempts: attempts + 2,
  };
  expect((await api.call("redeliver", { params })).json).toMatchObject(failed);
  expect(await deliveries()).toMatchObject([failed]);
  answer = () => ({ status: 200 });
  expect((await api.call("redeliver", { params })).json).toMatchObject({
    attempts: attempts + 3,
    state: "delivered",
    reason: null,
  });
  await call("deleteWebhook");
});

test("nothing is lost over a restart, and a crash is said with a gap", async () => {
  const { call } = await hook("/restart", { events: ["drive.created"] });
  answer = () => ({ status: received.length > 1 ? 200 : 503 });
  await drive("before");
  await expect.poll(() => at("/restart").length).toBe(1);
  await daemon().stop();
  await daemon().start();
  await drive("after");
  const drives = () => [...new Set(at("/restart").map(({ body }) => JSON.parse(body).data.drive))].sort();
  await expect.poll(drives, { timeout: 60_000 }).toEqual(["after", "before"]);
  await daemon().kill9();
  await daemon().start();
  await drive("later");
  await expect.poll(() => at("/restart").map(({ body }) => JSON.parse(body).type)).toContain("gap");
  await expect.poll(drives).toContain("later");
  await call("deleteWebhook");
});

test("a redirect is not followed, and 410 disables the webhook with an event", async () => {
  const { call } = await hook("/moved");
  answer = ({ path }) =>
    path === "/moved" ? { status: 307, headers: { location: `${base}/elsewhere` } } : { status: 410 };
  expect((await call("testWebhook")).json).toMatchObject({ state: "failed", status: 307 });
  expect(at("/elsewhere")).toEqual([]);
  await call("deleteWebhook");
  const gone = await hook("/gone", { events: ["drive"] });
  await drive("gone");
  await expect
    .poll(async () => (await gone.call("getWebhook")).json)
    .toMatchObject({
      enabled: false,
      disabledReason: "Its receiver answered 410 (Gone)",
    });
  // The event follows the record.
  await expect
    .poll(async () => (await api.call("readEvents", { query: { topics: "webhook" } })).json.events.at(-1))
    .toMatchObject({ type: "webhook.disabled", webhookId: gone.params.webhook, host: base.slice(7) });
  // Enabled again, it gets what comes from then on.
  answer = () => ({ status: 200 });
  await drive("missed");
  await gone.call("changeWebhook", { body: { enabled: true } });
  await drive("again");
  await expect.poll(() => at("/gone").map(({ body }) => JSON.parse(body).data.drive)).toEqual(["gone", "again"]);
  await gone.call("deleteWebhook");
});

test("addresses that are not public are refused, by number and by name, unless the operator allows them", async () => {
  const refused = [
    "http://10.0.0.1/",
    "https://[::1]/",
    "http://169.254.169.254/latest",
    "https://192.168.1.1",
    "http://93.184.216.34/",
  ];
  for (const url of refused) {
    const { status, json } = await api.send("createWebhook", { body: { url } });
    expect([url, status, json.error.message]).toEqual([url, 403, expect.stringContaining("SANDKEEP_WEBHOOK_ALLOW")]);
  }
  for (const url of ["ftp://a.test/", "nonsense", "https://user:secret@a.test/"]) {
    expect((await api.send("createWebhook", { body: { url } })).status).toBe(400);
  }
  // This name leads to the IPv6 loopback or to an allowed address, depending on the host.
  const { call } = await hook("/by-name", { url: "https://ip6-localhost.invalid/" });
  expect((await call("testWebhook")).json).toMatchObject({
    state: "failed",
    reason: expect.stringContaining("Cannot reach"),
  });
  await call("deleteWebhook");
});

test("a read-only key, a key with a policy ceiling and another team change no webhook", async () => {
  const { params, call } = await hook("/limited");
  const keys = [{ readOnly: true }, { policyCeiling: "deny-all" }];
  for (const limits of keys) {
    const { secret: key } = (await api.call("createKey", { body: { name: "limited", ...limits } })).json;
    expect((await api.call("getWebhook", { params, key })).json.id).toBe(params.webhook);
    for (const id of ["testWebhook", "deleteWebhook", "rotateWebhookSecret"]) {
      expect([id, (await api.send(id, { params, key })).status]).toEqual([id, 403]);
    }
  }
  const query = { team: (await api.call("createTeam", { body: { slug: "other" } })).json.slug };
  for (const id of ["getWebhook", "testWebhook", "deleteWebhook", "listDeliveries"]) {
    expect([id, (await api.send(id, { params, query })).status]).toEqual([id, 404]);
  }
  await call("deleteWebhook");
});

test("the command line makes, tests, lists, disables and deletes a webhook", async () => {
  const cli = new Cli(daemon);
  const made = await cli.run(["webhook", "add", "--events", "drive.created, snapshot", `${base}/cli`]);
  const [, id = ""] = /^sandkeep: Made (wh_\w+); its secret is not shown again:\n$/.exec(made.stderr) ?? [];
  const secret = made.stdout.trim();
  expect(secret).toMatch(/^whsec_/);
  const listed = await cli.run(["webhook", "ls"]);
  expect(listed.stdout).toMatch(/^ID +URL +STATE +EVENTS +AGE\n/);
  expect(listed.stdout).toMatch(new RegExp(`^${id} +${base}/cli +enabled +drive.created,snapshot +\\d+s$`, "m"));

  const tested = await cli.run(["webhook", "test", id]);
  expect(tested).toMatchObject({ code: 0, stderr: "" });
  const [, message = ""] = /^Sent (msg_\w+): the receiver answered 204\n$/.exec(tested.stdout) ?? [];
  expect(at("/cli").map(({ headers, body }) => verified(secret, headers, body).type)).toEqual(["webhook.test"]);
  answer = () => ({ status: 500 });
  expect(await cli.run(["webhook", "redeliver", id, message])).toMatchObject({
    code: 1,
    stdout: "",
    stderr: expect.stringMatching(new RegExp(`^sandkeep: Cannot deliver ${message}: The receiver answered 500\n$`)),
  });
  expect((await cli.run(["webhook", "deliveries", id, "--limit", "1"])).stdout).toMatch(
    /^ID +TYPE +STATE +ATTEMPTS +STATUS +AGE +NEXT IN +REASON\nmsg_\w+ +webhook\.test +\w+ +2 +500 +\d+s +.+\n$/,
  );
  expect(await cli.json(["webhook", "deliveries", id])).toMatchObject([{ id: message, attempts: 2, status: 500 }]);

  expect(await cli.json(["webhook", "disable", id])).toMatchObject({ id, enabled: false });
  expect((await cli.run(["webhook", "ls"])).stdout).toMatch(new RegExp(`^${id} +\\S+ +disabled `, "m"));
  expect((await cli.run(["webhook", "enable", id])).stdout).toBe(`${id}\n`);
  const { secret: rotated } = await cli.json(["webhook", "rotate", id]);
  expect(rotated).not.toBe(secret);
  expect(await cli.run(["webhook", "rm", id])).toEqual({ code: 0, stdout: `${id}\n`, stderr: "" });
  expect(await cli.run(["webhook", "test", id])).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(new RegExp(`^sandkeep: Cannot test the webhook "${id}": `)),
  });
  expect((await cli.run(["webhook", "create", "--events", "nothing", base])).stderr).toMatch(
    new RegExp(`^sandkeep: Cannot send events to "${base}": `),
  );
  expect((await cli.run(["webhook", "ls", "--limit", "3"])).stderr).toMatch(/^sandkeep: Cannot use --limit with/);
});
