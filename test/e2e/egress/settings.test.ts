/** The operator's network settings, changed at a restart of the daemon while sandboxes run and connections are open. */

import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { certificateOf, deriveAuthority } from "../../../src/egress/intercept/authority.ts";
import type { TestDaemon } from "../../harness/daemon.ts";
import { eventually, tempDir } from "../../harness/harness.ts";
import { processesOf } from "../../harness/traces.ts";
import { openInternet } from "../../internet/internet.ts";
import { internetRoots, startDaemonOn, startTlsServers } from "../../internet/internet-daemon.ts";
import { nameServer, webAddress } from "../../internet/internet-names.ts";
import { has, needs } from "../../runner/needs.ts";
import { type AnySandbox, createUnder, type Policy } from "../clients.ts";

const undo = new AsyncDisposableStack();
let daemon: TestDaemon;
let roots: string;
/** an address of the internet without a name server */
const silent = `${webAddress}:5`;

beforeAll(async () => {
  if (!has("root")) return;
  const internet = await openInternet(undo);
  await startTlsServers(internet, undo);
  roots = await internetRoots(undo);
  daemon = await startDaemonOn(internet, undo);
});
afterAll(() => undo.disposeAsync());
beforeEach((context) => needs(context, "root", "the command curl", "the command python3"));

/** restores the settings of the first start */
const usual = () => ({
  SANDKEEP_DNS: nameServer,
  SANDKEEP_EGRESS_CA: roots,
  SANDKEEP_EGRESS_ALLOW: "",
  SANDKEEP_EGRESS_DENY: "",
});

describe("a daemon that is started again with another", () => {
  test("SANDKEEP_EGRESS_DENY cuts off open connections, and applies to new sandboxes and old ones", async () => {
    const before = await create("allow-all");
    const open = await echoing(before, webAddress);
    expect(await open.again()).toBe("tcp hello udp hello");
    await restarted({ SANDKEEP_EGRESS_DENY: `${webAddress}/32` });
    expect(await open.again()).toMatch(/^tcp (ECONNRESET|EPIPE|closed) udp (EHOSTUNREACH|EACCES|timeout)$/);
    const after = await create("allow-all");
    for (const sandbox of [before, after]) expect(await page(sandbox, webAddress)).not.toContain("page for");
    await restarted({ SANDKEEP_EGRESS_DENY: "" });
    for (const sandbox of [before, after]) expect(await page(sandbox, webAddress)).toContain("page for");
    await Promise.all([before.delete(), after.delete()]);
  });

  test("SANDKEEP_EGRESS_ALLOW opens a private address, and closes it again, also for open connections", async () => {
    const sandbox = await create("allow-all");
    expect(await page(sandbox, "10.9.9.9")).not.toContain("page for");
    await restarted({ SANDKEEP_EGRESS_ALLOW: "10.9.9.0/24" });
    expect(await page(sandbox, "10.9.9.9")).toContain("page for");
    const open = await echoing(sandbox, "10.9.9.9");
    expect(await open.again()).toBe("tcp hello udp hello");
    await restarted({ SANDKEEP_EGRESS_ALLOW: "" });
    expect(await open.again()).toMatch(/^tcp (ECONNRESET|EPIPE|closed) udp (EHOSTUNREACH|EACCES|timeout)$/);
    await sandbox.delete();
  });

  test("SANDKEEP_DNS asks the new resolver, and no other", async () => {
    const sandbox = await create("allow-all");
    // One question.
    const resolves = (seconds = 60) =>
      output(sandbox, "env", [`RES_OPTIONS=timeout:${seconds} attempts:1`, "getent", "ahostsv4", "web.test"]);
    expect(await resolves()).toContain(webAddress);
    await restarted({ SANDKEEP_DNS: silent });
    expect(await resolves(2)).toBe("");
    await restarted({ SANDKEEP_DNS: nameServer });
    expect(await resolves()).toContain(webAddress);
    await sandbox.delete();
  });

  test("SANDKEEP_EGRESS_CA trusts only its certificates, also on connections that were open", async () => {
    const sandbox = await create({ allow: { "web.test": [{ transform: [{ headers: { "x-secret": "s" } }] }] } });
    const site = "https://web.test:8443/";
    expect(await output(sandbox, "curl", ["-sS", site])).toContain("x-secret");
    const open = await asking(sandbox, site);
    expect(await open.again()).toContain("200");
    const stranger = join(await tempDir(undo), "stranger.pem");
    await writeFile(stranger, certificateOf(deriveAuthority(Buffer.alloc(32, "stranger"), "stranger")));
    await restarted({ SANDKEEP_EGRESS_CA: stranger });
    expect(await open.again()).not.toContain("200");
    expect(await output(sandbox, "curl", ["-sS", site])).toContain("its certificate is not valid");
    await restarted({ SANDKEEP_EGRESS_CA: roots });
    expect(await output(sandbox, "curl", ["-sS", site])).toContain("x-secret");
    await sandbox.delete();
  });
});

test("an egress process that starts without a daemon knows the settings of the last one", async () => {
  await restarted({ SANDKEEP_EGRESS_DENY: `${webAddress}/32` });
  const sandbox = await create("allow-all");
  const loop = `while sleep 0.1; do curl -s -m 2 http://${webAddress}/ && echo; done`;
  const command = await sandbox.runCommand({ cmd: "bash", args: ["-c", loop], detached: true });
  await daemon.stop();
  const pid = await eventually("the egress process runs", () => egressPid());
  process.kill(pid, "SIGKILL");
  await eventually("another one runs", async () => {
    const next = await egressPid();
    return next !== undefined && next !== pid;
  });
  await new Promise((resolve) => setTimeout(resolve, 500));
  await daemon.start();
  await command.kill();
  expect(await command.stdout()).not.toContain("page for");
  await sandbox.delete();
  await restarted(usual());
});

describe("a start is refused, with a sentence and before anything has changed, when", () => {
  test.each([
    ["is not there", async (folder: string) => join(folder, "none.pem"), /SANDKEEP_EGRESS_CA ".*none\.pem": .*ENOENT/],
    [
      "has no certificate",
      async (folder: string) => {
        const file = join(folder, "empty.pem");
        await writeFile(file, "hello\n");
        return file;
      },
      /SANDKEEP_EGRESS_CA ".*empty\.pem": it has no certificate in PEM/,
    ],
  ])("the file of SANDKEEP_EGRESS_CA %s", async (_, make, sentence) => {
    const sandbox = await create("allow-all");
    await daemon.stop();
    const file = await make(await tempDir());
    await expect(daemon.start({ SANDKEEP_EGRESS_CA: file })).rejects.toThrow(sentence);
    await daemon.start(usual());
    expect(await page(sandbox, webAddress)).toContain("page for");
    await sandbox.delete();
  });

  test("the run directory changes while sandboxes run", async () => {
    const sandbox = await create("allow-all");
    const { runDir } = daemon;
    const parent = await mkdtemp("/run/sandkeep-e2e-");
    undo.defer(() => rm(parent, { recursive: true, force: true }));
    const other = join(parent, "new/run");
    await daemon.stop();
    const moved = { SANDKEEP_RUN_DIR: other };
    const refused = await daemon.start(moved).catch((error: Error) => error.message);
    expect(refused).toMatch(
      new RegExp(
        `Cannot use the run directory "${other}": \\d+ of its sandboxes run with their sockets in "${runDir}"; ` +
          `set SANDKEEP_RUN_DIR to "${runDir}" again, or stop them first`,
      ),
    );
    expect(await readdir(parent)).toEqual([]);
    await daemon.start({ SANDKEEP_RUN_DIR: runDir });
    expect(await page(sandbox, webAddress)).toContain("page for");
    await sandbox.delete();
  });
});

async function restarted(changes: Parameters<TestDaemon["start"]>[0]): Promise<void> {
  await daemon.stop();
  await daemon.start(changes);
}

function create(networkPolicy: Policy): Promise<AnySandbox> {
  return createUnder(daemon, networkPolicy, false);
}

async function output(sandbox: AnySandbox, name: string, args: string[]): Promise<string> {
  const command = await sandbox.runCommand(name, args);
  return (await command.stdout()) + (command.exitCode === 0 ? "" : await command.stderr());
}

function page(sandbox: AnySandbox, address: string): Promise<string> {
  return output(sandbox, "curl", ["-sS", "-m", "60", `http://${address}/`]);
}

/** a program that answers over its open connections whenever the file of questions grows */
async function following(sandbox: AnySandbox, code: string): Promise<{ again(): Promise<string> }> {
  const name = `/tmp/${Math.random().toString(36).slice(2)}`;
  const program = `
import errno, http.client, os, socket, ssl, sys, time
${code}
asked = 0
print("open", file=open("${name}.out", "a"), flush=True)
while True:
    if os.path.exists("${name}.%d" % asked):
        print(answer(), file=open("${name}.out", "a"), flush=True); asked += 1
    time.sleep(0.02)
`;
  const script = `cat > ${name}.py <<'PYTHON'\n${program}\nPYTHON\nexec python3 ${name}.py`;
  await sandbox.runCommand({ cmd: "bash", args: ["-c", script], detached: true });
  let count = 0;
  const lines = async () => (await output(sandbox, "cat", [`${name}.out`])).trim().split("\n");
  await eventually("it is open", async () => (await lines())[0] === "open");
  return {
    async again() {
      await output(sandbox, "touch", [`${name}.${count}`]);
      count++;
      return eventually("it answers", async () => (await lines())[count], { everyMs: 100 });
    },
  };
}

/** a connection and a flow of datagrams to an echo */
function echoing(sandbox: AnySandbox, address: string) {
  return following(
    sandbox,
    `
stream = socket.create_connection(("${address}", 7), 60)
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); datagrams.settimeout(20); datagrams.connect(("${address}", 7))
def said(s):
    try: s.send(b"hello"); return s.recv(99).decode() or "closed"
    except socket.timeout: return "timeout"
    except OSError as e: return errno.errorcode.get(e.errno, str(e))
def answer(): return "tcp " + said(stream) + " udp " + said(datagrams)`,
  );
}

/** requests over one connection, whose certificate it does not check */
function asking(sandbox: AnySandbox, site: string) {
  return following(
    sandbox,
    `
c = http.client.HTTPSConnection("${new URL(site).host}", timeout=60, context=ssl._create_unverified_context())
c.connect(); c.auto_open = 0
def answer():
    try: c.request("GET", "/"); r = c.getresponse(); r.read(); return str(r.status)
    except Exception as e: return type(e).__name__`,
  );
}

/** the process of this daemon: it descends from one whose command line ends with the daemon's own folder */
async function egressPid(): Promise<number | undefined> {
  for (const pid of processesOf(daemon.dataDir)) {
    const line = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    if (line.startsWith("sandkeep-egress")) return pid;
  }
  return undefined;
}
