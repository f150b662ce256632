/**
 * The checks before any API gets a request: names of other hosts, many wrong keys, thousands of logins, pages in
 * browsers. And how a sandbox's secrets are stored.
 */

import { request } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { text } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { raw } from "../clients.ts";
import { form, instavm } from "../instavm/instavm.ts";

const daemon = daemonOfFile({ SANDKEEP_DOMAIN: "sandboxes.test", SANDKEEP_ALLOWED_HOSTS: "box.internal" });

describe("a name of another host", () => {
  const paths = ["/v2/user", "/v1/vms", "/sandbox-sessions", "/sandkeep/v1/keys", "/mcp", "/login/device", "/none"];

  test.each(["evil.example", "evil.example:7700", "127.0.0.1.evil.example"])(
    "%s is refused everywhere",
    async (host) => {
      for (const path of paths) {
        const { status, body } = await ask("GET", path, { host });
        expect(status, path).toBe(403);
        expect(body, path).toMatch(/Cannot answer to .*: it is not a name of this daemon/);
      }
      expect((await ask("GET", "/health", { host })).status).toBe(200);
    },
  );

  test.each(["localhost", "127.0.0.1:1", "[::1]", "sandkeep", "sandboxes.test", "box.internal:7700"])(
    "%s is one of ours",
    async (host) => {
      expect((await ask("GET", "/v2/user", { host })).status).toBe(200);
    },
  );
});

describe("a request that names two hosts", () => {
  const two = "Host: 127.0.0.1\r\nHost: sb-000000000000.sandboxes.test";
  const upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AA==";
  test.each([
    ["by two headers", `GET /v2/user HTTP/1.1\r\n${two}\r\nConnection: close`],
    ["by two that are equal", "GET /v2/user HTTP/1.1\r\nHost: 127.0.0.1\r\nhost: 127.0.0.1\r\nConnection: close"],
    [
      "by its address",
      "GET http://127.0.0.1/v2/user HTTP/1.1\r\nHost: sb-000000000000.sandboxes.test\r\nConnection: close",
    ],
    ["of a port", `GET / HTTP/1.1\r\nHost: sb-000000000000.sandboxes.test\r\nHost: 127.0.0.1\r\nConnection: close`],
    ["for another protocol", `GET /v2/user HTTP/1.1\r\n${two}\r\n${upgrade}`],
  ])("%s is refused", async (_, head) => {
    expect(await said(`${head}\r\n\r\n`)).toMatch(/^HTTP\/1.1 400 /);
  });

  test("that names the same host twice is answered: clients behind a proxy send this", async () => {
    const head = "GET http://127.0.0.1/health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close";
    expect(await said(`${head}\r\n\r\n`)).toMatch(/^HTTP\/1.1 200 /);
  });

  /** the daemon's whole answer to these bytes */
  const said = (request: string) => {
    const socket = connect(Number(new URL(daemon().url).port), "127.0.0.1");
    socket.write(request);
    return text(socket);
  };
});

describe("wrong keys", () => {
  const from = (address: string) => ({ "x-forwarded-for": `203.0.113.1, ${address}` });

  test("get their address refused after a while, on every API, with a time to come back", async () => {
    const address = "198.51.100.7";
    for (let count = 0; count < 30; count++) {
      const { status } = await ask("GET", "/v2/user", { ...from(address), authorization: `Bearer sk_wrong_${count}` });
      expect(status).toBe(401);
    }
    for (const path of ["/v2/user", "/v1/vms", "/sandbox-sessions", "/sandkeep/v1/keys", "/mcp"]) {
      const answer = await ask("GET", path, { ...from(address), authorization: "Bearer sk_one_more" });
      expect([answer.status, path]).toEqual([429, path]);
      expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
      expect(Number(answer.headers["retry-after"])).toBeLessThanOrEqual(60);
    }
    // The right key is not checked either, or an attacker could find it by trying.
    expect((await ask("GET", "/v2/user", from(address))).status).toBe(429);
    expect((await ask("GET", "/v2/user", from("198.51.100.8"))).status).toBe(200);
    // A stale key that is used again and again counts once.
    expect((await ask("GET", "/v2/user", { ...from(address), authorization: "Bearer sk_wrong_7" })).status).toBe(401);
  });

  test("do not lock out an address that the right key has come from", async () => {
    const address = "198.51.100.9";
    expect((await ask("GET", "/v2/user", from(address))).status).toBe(200);
    for (let count = 0; count < 40; count++) {
      await ask("GET", "/v2/user", { ...from(address), authorization: `Bearer sk_guess_${count}` });
    }
    expect((await ask("GET", "/v2/user", { ...from(address), authorization: "Bearer sk_more" })).status).toBe(429);
    expect((await ask("GET", "/v2/user", from(address))).status).toBe(200);
  });
});

test("a thousand unfinished logins do not prevent another login", async () => {
  const begin = (address: string) =>
    ask("POST", "/api/login/oauth/device-authorization", { "x-forwarded-for": address, authorization: undefined });
  const mine = JSON.parse((await begin("198.51.100.20")).body);
  const poll = async () => {
    const fields = new URLSearchParams({
      grant_type: "urn:ietf:params:oauth:grant-type:device_code",
      device_code: mine.device_code,
    });
    const answer = await fetch(`${daemon().url}/api/login/oauth/token`, { method: "POST", body: fields });
    return (await answer.json()) as { error?: string; access_token?: string };
  };
  for (let round = 0; round < 11; round++) {
    const flood = Array.from({ length: 110 }, (_, index) => begin(`203.0.113.${index + 1}`));
    for (const { status } of await Promise.all(flood)) expect(status).toBe(200);
  }
  expect((await poll()).error).toMatch(/authorization_pending|slow_down/);
  const approval = new URLSearchParams({ user_code: mine.user_code, key: daemon().key, answer: "approve" });
  expect((await fetch(`${daemon().url}/login/device`, { method: "POST", body: approval })).status).toBe(200);
  expect((await poll()).access_token).toBe(daemon().key);
});

describe("a page in a browser", () => {
  const asked = {
    origin: "https://app.example",
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type",
    authorization: undefined,
  };

  test.each(["/v3/sandboxes", "/v1/sandboxes", "/api/v2/user", "/v1/vms", "/sandbox-sessions", "/sandkeep/v1/keys"])(
    "may send requests to %s with a key of its user",
    async (path) => {
      const preflight = await ask("OPTIONS", path, asked);
      expect(preflight).toMatchObject({
        status: 204,
        headers: {
          "access-control-allow-origin": "*",
          "access-control-allow-methods": expect.stringMatching(/POST.*DELETE/),
          "access-control-allow-headers": "authorization,content-type",
        },
      });
      const answer = await ask("GET", path, { origin: "https://app.example" });
      expect(answer.headers).toMatchObject({ "access-control-allow-origin": "*", "cache-control": "private" });
      const refused = await ask("GET", path, { origin: "https://app.example", authorization: "Bearer none" });
      expect(refused).toMatchObject({ status: 401, headers: { "access-control-allow-origin": "*" } });
    },
  );

  test("cannot send requests to MCP or the login page", async () => {
    for (const path of ["/mcp", "/login/device"]) {
      const preflight = await ask("OPTIONS", path, asked);
      expect(preflight.headers["access-control-allow-origin"]).toBeUndefined();
    }
  });
});

test("answers show how many requests are left, as those of the hosted service do", async () => {
  const list = () => raw(daemon(), "GET", "/v2/sandboxes");
  const [first, second] = [await list(), await list()];
  const left = (answer: typeof first) => Number(answer.headers.get("x-ratelimit-remaining"));
  expect(first.headers.get("x-ratelimit-limit")).toBe("1000");
  expect(left(second)).toBeLessThan(1000);
  const reset = Number(second.headers.get("x-ratelimit-reset")) - Date.now() / 1000;
  expect(reset).toBeGreaterThan(-1);
  expect(reset).toBeLessThanOrEqual(61);
  const made = await raw(daemon(), "POST", "/v3/sandboxes", { body: { name: "limited" } });
  expect(made.headers.get("x-ratelimit-limit")).toBe("20");
  const gone = await raw(daemon(), "DELETE", "/v2/sandboxes/limited");
  expect(gone.headers.get("x-ratelimit-limit")).toBe("20");
  expect(left(gone)).toBeGreaterThan(0);
});

test("environment variables are stored sealed, and reach commands, forks and later sessions", async () => {
  const word = "word-that-is-in-no-file";
  const made = await raw(daemon(), "POST", "/v3/sandboxes", { body: { name: "sealed", env: { WORD: word } } });
  const echo = async (id: string) => {
    const body = { command: "sh", args: ["-c", "echo $WORD"], wait: true, logs: true };
    return (await raw(daemon(), "POST", `/v2/sandboxes/sessions/${id}/cmd`, { body })).text;
  };
  expect(await echo(made.json.session.id)).toContain(word);
  const fork = await raw(daemon(), "POST", "/v2/sandboxes/sealed/fork", { body: { name: "sealed-fork" } });
  expect(await echo(fork.json.session.id)).toContain(word);
  await raw(daemon(), "POST", `/v2/sandboxes/sessions/${made.json.session.id}/stop`);
  const again = await raw(daemon(), "GET", "/v2/sandboxes/sealed?resume=true");
  expect(await echo(again.json.session.id)).toContain(word);
  expect(stored()).not.toContain(word);

  // Variables that an earlier version stored in the clear are sealed at the next start.
  await daemon().stop();
  const db = new DatabaseSync(join(daemon().dataDir, "sandkeep.db"));
  for (const table of ["sandboxes", "sessions"]) db.exec(`update ${table} set env = '{"WORD":"${word}"}'`);
  for (const column of ["parent_id", "root_id"]) db.exec(`alter table drives drop column ${column}`);
  for (const column of ["ingress", "notes", "on_timeout", "made_by"])
    db.exec(`alter table sandboxes drop column ${column}`);
  for (const column of ["resumed_at", "paused_at", "paused_ms"]) db.exec(`alter table sessions drop column ${column}`);
  const tables = [
    "webhook_deliveries",
    "webhooks",
    "audit",
    "template_logs",
    "template_tags",
    "template_builds",
    "templates",
    "secrets",
  ];
  for (const table of tables) db.exec(`drop table ${table}`);
  for (const column of ["admin", "quota"]) db.exec(`alter table api_keys drop column ${column}`);
  for (const column of ["quota", "deleted_at"]) db.exec(`alter table teams drop column ${column}`);
  for (const index of ["snapshots_of_session", "all_snapshots_of_sandbox", "snapshots_sizes"])
    db.exec(`drop index ${index}`);
  db.exec("delete from migrations where number >= 8");
  db.close();
  expect(stored()).toContain(word);
  await daemon().start();
  expect(stored()).not.toContain(word);
  expect(await echo(again.json.session.id)).toContain(word);
});

test("a file for a volume is not written through a link in it", async () => {
  const volume = instavm(daemon);
  const { json } = await volume("POST", "/v1/volumes", { name: "linked" });
  const mounts = { "/data": { drive: "linked" } };
  const made = await raw(daemon(), "POST", "/v3/sandboxes", { body: { name: "linker", mounts } });
  const script = "ln -s /etc /data/out; ln -s /etc/passwd /data/file; ln -s . /data/loop; mkdir /data/folder";
  const body = { command: "sudo", args: ["sh", "-c", script], wait: true };
  await raw(daemon(), "POST", `/v2/sandboxes/sessions/${made.json.session.id}/cmd`, { body });
  await raw(daemon(), "POST", `/v2/sandboxes/sessions/${made.json.session.id}/stop`);
  const upload = (path: string) =>
    volume(
      "POST",
      `/v1/volumes/${json.id ?? json.volume_id}/files/upload`,
      form({ file: new Blob(["x"]), path, overwrite: "true" }),
    );
  for (const path of ["out/new", "file", "loop/new", "folder/../out/new"]) {
    const refused = await upload(path);
    expect([refused.status, path]).toEqual([400, path]);
    expect(refused.json.detail).toMatch(/^Cannot write ".*": ".*" is a link$/);
  }
  expect((await upload("folder/deep/new")).status).toBe(200);
});

/** the contents of the columns with environments */
function stored(): string {
  const db = new DatabaseSync(join(daemon().dataDir, "sandkeep.db"), { readOnly: true });
  const rows = ["sandboxes", "sessions"].flatMap((table) => db.prepare(`select env from ${table}`).all());
  db.close();
  return JSON.stringify(rows);
}

type Headers = Record<string, string | undefined>;

/** a request with headers that an ordinary client would not send */
function ask(method: string, path: string, headers: Headers = {}) {
  const { url, key } = daemon();
  const { hostname, port } = new URL(url);
  const sent = Object.entries({ authorization: `Bearer ${key}`, ...headers }).filter(
    ([, value]) => value !== undefined,
  );
  const options = { hostname, port, method, path, headers: Object.fromEntries(sent) };
  return new Promise<{ status: number; headers: Record<string, string>; body: string }>((resolve, reject) => {
    request(options, async (answer) => {
      const body = await text(answer);
      resolve({ status: answer.statusCode ?? 0, headers: answer.headers as Record<string, string>, body });
    })
      .on("error", reject)
      .end();
  });
}
