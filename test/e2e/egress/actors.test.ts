/** Which command a connection, a datagram or a question came from, as the egress log says it. */

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { TestDaemon } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { openInternet } from "../../internet/internet.ts";
import { startDaemonOn } from "../../internet/internet-daemon.ts";
import { evilAddress as allowed4, otherAddress6 as allowed6, webAddress } from "../../internet/internet-names.ts";
import { has, needs } from "../../runner/needs.ts";
import { type AnySandbox, createUnder, type Policy } from "../clients.ts";
import { egressPage, lineWith } from "./egress-lines.ts";

const undo = new AsyncDisposableStack();
let daemon: TestDaemon;

beforeAll(async () => {
  if (!has("root")) return;
  daemon = await startDaemonOn(await openInternet(undo), undo);
});
afterAll(() => undo.disposeAsync());
beforeEach((context) => needs(context, "root", "the command curl", "the command python3"));

const rules = [{ transform: [{ headers: { "x-test": "yes" } }] }];
const policy: Policy = {
  allow: { "web.test": rules, "other.test": rules },
  subnets: { allow: [`${allowed4}/32`, `${allowed6}/128`] },
};

/** makes the connections of its arguments and keeps each socket open until /tmp/done exists, so that it can be found */
const talker = `
import os, socket, ssl, struct, sys, time
held = []
def opened(kind, address, port):
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)
    s.settimeout(30); s.connect((address, int(port))); held.append(s); return s
for word in sys.argv[1:]:
    kind, *rest = word.split("/")
    if kind == "tcp": s = opened(socket.SOCK_STREAM, *rest); s.send(b"x"); s.recv(1)
    if kind == "udp": s = opened(socket.SOCK_DGRAM, *rest); s.send(b"x"); s.recv(1)
    if kind == "dns":
        name = b"".join(bytes([len(part)]) + part.encode() for part in rest[0].split("."))
        s = opened(socket.SOCK_DGRAM, "198.18.0.1", 53)
        s.send(struct.pack(">HHHHHH", 1, 256, 1, 0, 0, 0) + name + b"\\0\\0\\1\\0\\1"); s.recv(2048)
    if kind == "https":
        s = opened(socket.SOCK_STREAM, socket.getaddrinfo(rest[0], 443, socket.AF_INET)[0][4][0], 443)
        s = ssl.create_default_context().wrap_socket(s, server_hostname=rest[0]); held.append(s)
        s.send(f"GET /{rest[1]} HTTP/1.1\\r\\nHost: {rest[0]}\\r\\n\\r\\n".encode()); s.recv(2048)
print("talked", flush=True)
while not os.path.exists("/tmp/done"): time.sleep(0.05)
`;

test("parallel commands are told apart, for every protocol and every child process", async () => {
  const sandbox = await create(policy);
  const hosts = [
    { name: "web.test", port: 7 },
    { name: "other.test", port: 7007 },
  ];
  for (const { name, port } of hosts) {
    const connections = [allowed4, allowed6].flatMap((address) => [`tcp/${address}/${port}`, `udp/${address}/${port}`]);
    const words = [...connections, `dns/${name}`, `https/${name}/${port}`].join(" ");
    const { cmdId: command } = await started(sandbox, `python3 /tmp/talker.py ${words}; true`);
    const who = { command, program: "python3" };
    for (const address of [allowed4, allowed6]) {
      for (const protocol of ["tcp", "udp"]) await lineWith(daemon, sandbox, { ...who, protocol, address, port });
    }
    await lineWith(daemon, sandbox, { ...who, protocol: "dns", name, type: "A" });
    await lineWith(daemon, sandbox, { ...who, protocol: "tls", name });
    await lineWith(daemon, sandbox, { ...who, protocol: "https", name, path: `/${port}`, status: 200 });
  }
  const { events } = await egressPage(daemon, sandbox);
  const commands = (wanted: number) =>
    new Set(events.flatMap(({ port, command }: Record<string, unknown>) => (port === wanted ? [command] : [])));
  expect([commands(7), commands(7007)].map(({ size }) => size)).toEqual([1, 1]);
  await sandbox.delete();
});

test("the bytes of a connection count for the command that made it", async () => {
  const sandbox = await create(policy);
  const { cmdId: command } = await started(sandbox, `python3 /tmp/talker.py tcp/${allowed4}/7`);
  await lineWith(daemon, sandbox, { command, port: 7, count: 1 });
  await sandbox.runCommand("touch", ["/tmp/done"]);
  expect(await lineWith(daemon, sandbox, { port: 7, ended: 1 })).toMatchObject({ command, bytesIn: 1, bytesOut: 1 });
  await sandbox.delete();
});

test.each<[what: string, policy: Policy, script: string, fields: Record<string, unknown>]>([
  ["a name", policy, "curl -s https://evil.test/", { protocol: "dns", name: "evil.test" }],
  ["plain HTTP", policy, `curl -s http://${webAddress}/`, { protocol: "http", address: webAddress }],
  ["TLS", policy, `curl -s --resolve x.test:443:${webAddress} https://x.test/`, { protocol: "tls", sni: "x.test" }],
  [
    "a datagram",
    policy,
    `exec 3<>/dev/udp/${webAddress}/7; echo x >&3; read -t 30 <&3`,
    { protocol: "udp", address: webAddress },
  ],
  ["an address", "allow-all", "curl -s http://169.254.169.254/", { protocol: "http", address: "169.254.169.254" }],
])(
  "%s that is refused is logged with its command, although the program ends with the refusal",
  async (_, under, script, fields) => {
    const sandbox = await create(under);
    const line = await told(sandbox, script, fields);
    expect(line).toMatchObject({ allowed: false, program: script.split(" ")[0] === "curl" ? "curl" : "bash" });
    await sandbox.delete();
  },
);

test("a command's background processes still count as its own, and a daemonized process belongs to no command", async () => {
  const sandbox = await create(policy);
  await sandbox.writeFiles([{ path: "/tmp/talker.py", content: Buffer.from(talker) }]);
  const wait = "until [ -e /tmp/go ]; do sleep 0.05; done";
  const later = (port: number) => `{ ${wait}; python3 /tmp/talker.py tcp/${allowed4}/${port}; } >/dev/null 2>&1`;
  const left = await sandbox.runCommand("bash", ["-c", `${later(7)} &`]);
  await sandbox.runCommand("setsid", ["--fork", "bash", "-c", later(7007)]);
  const other = await sandbox.runCommand({ cmd: "sleep", args: ["1000"], detached: true });
  await sandbox.runCommand("touch", ["/tmp/go"]);
  await lineWith(daemon, sandbox, { port: 7, command: left.cmdId, program: "python3" });
  await lineWith(daemon, sandbox, { port: 7007, command: undefined, program: "python3" });
  await other.kill();
  await sandbox.delete();
});

test("a name that a program gives itself is harmless in the log", async () => {
  const sandbox = await create(policy);
  const rename = `import ctypes; ctypes.CDLL(None).prctl(15, b"a) R 1\\x1b[2J\\xff\\n")`;
  await sandbox.writeFiles([{ path: "/tmp/renamed.py", content: Buffer.from(`${rename}\n${talker}`) }]);
  const { cmdId: command } = await started(sandbox, `python3 /tmp/renamed.py tcp/${allowed4}/7`);
  const line = await lineWith(daemon, sandbox, { command, port: 7 });
  expect(line.program).toMatch(/^a\) R 1[\x20-\x7e]*$/);
  await sandbox.delete();
});

test("many processes with many descriptors hide no other process and delay none", async () => {
  const sandbox = await create(policy);
  const code = `
import os, time
for n in range(500):
    if os.fork() == 0:
        held = [os.dup(0) for m in range(200)]
        time.sleep(1000)
print("there", flush=True)
time.sleep(1000)`;
  const crowd = await sandbox.runCommand({ cmd: "python3", args: ["-c", code], detached: true });
  for await (const { data } of crowd.logs()) if (data.includes("there")) break;
  await told(sandbox, `curl -s http://${allowed4}/`, { protocol: "http" });
  await sandbox.delete();
});

test.each(["STOP", "KILL"])(
  "root inside that sends SIG%s to the searching process harms only its own log",
  async (signal) => {
    const sandbox = await create(policy);
    const hunt = `while :; do pkill -${signal} -x sandkeep-holder && echo caught; done`;
    const hunter = await sandbox.runCommand({ cmd: "bash", args: ["-c", hunt], sudo: true, detached: true });
    const caught = (async () => {
      for await (const { data } of hunter.logs()) if (data.includes("caught")) return true;
      return false;
    })();
    const { exitCode } = await sandbox.runCommand("bash", [
      "-c",
      `for n in {1..20}; do curl -sf http://${allowed4}/ || exit 1; done`,
    ]);
    expect(exitCode).toBe(0);
    expect((await sandbox.runCommand("curl", ["-s", "-w", "%{http_code}", `http://${webAddress}/`])).exitCode).toBe(0);
    expect(await caught).toBe(true);
    await hunter.kill();
    await told(sandbox, `curl -s http://${allowed4}/`, { protocol: "http" });
    await sandbox.delete();
  },
);

test("without the daemon connections still work and have no command in the log; with it they have one again", async () => {
  const sandbox = await create(policy);
  const script = `while sleep 0.1; do curl -sf http://${allowed4}/ || exit 1; done`;
  const command = await sandbox.runCommand({ cmd: "bash", args: ["-c", script], detached: true });
  const lines = async () => (await linesOnDisk()).filter(({ protocol, count }) => protocol === "http" && count !== 0);
  const isTold = (line: Record<string, unknown>) => line.command === command.cmdId;
  await eventually("it is told", async () => (await lines()).some(isTold));
  await daemon.kill9();
  const { length: before } = await lines();
  await eventually("nobody is told", async () => (await lines()).slice(before + 1).length > 2);
  expect((await lines()).slice(before + 1).filter(isTold)).toEqual([]);
  const { length: without } = await lines();
  await daemon.start();
  await eventually("it is told again", async () => (await lines()).slice(without).some(isTold));
  await sandbox.delete();
});

function create(networkPolicy: Policy): Promise<AnySandbox> {
  return createUnder(daemon, networkPolicy, false);
}

/** a command that can run the talker, once the talker has printed its line */
async function started(sandbox: AnySandbox, script: string) {
  await sandbox.writeFiles([{ path: "/tmp/talker.py", content: Buffer.from(talker) }]);
  const command = await sandbox.runCommand({ cmd: "bash", args: ["-c", script], detached: true });
  for await (const { data } of command.logs()) if (data.includes("talked")) return command;
  throw new Error(`The talker has ended: ${await command.output("both")}`);
}

/** a log line of a command that ends at once; runs it again if it ended before it was found */
function told(sandbox: AnySandbox, script: string, fields: Record<string, unknown>): Promise<Record<string, unknown>> {
  const attempt = async () => {
    const { cmdId: command } = await sandbox.runCommand("bash", ["-c", `${script}; true`]);
    const { events } = await egressPage(daemon, sandbox);
    return events.find((event: Record<string, unknown>) =>
      Object.entries({ ...fields, command }).every(([key, value]) => event[key] === value),
    );
  };
  return eventually("one that is told", attempt);
}

/** of all machines, read while no daemon can be asked */
async function linesOnDisk(): Promise<Record<string, unknown>[]> {
  const logs = join(daemon.dataDir, "store/egress");
  const files = (await readdir(logs)).map((name) => join(logs, name, "egress.jsonl"));
  const texts = await Promise.all(files.map((file) => readFile(file, "utf8").catch(() => "")));
  return texts.flatMap((text) => text.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line)])));
}
