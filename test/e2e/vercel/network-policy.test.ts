/** Network policies as the vendor's SDK sets them, on real sandboxes: at their start, while they run, and over restarts. */

import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { TestDaemon } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { processesOf } from "../../harness/traces.ts";
import { type Internet, openInternet } from "../../internet/internet.ts";
import { startDaemonOn } from "../../internet/internet-daemon.ts";
import { evilAddress, nameServer, otherAddress, webAddress } from "../../internet/internet-names.ts";
import { watchWire } from "../../internet/wire-watch.ts";
import { has, needs } from "../../runner/needs.ts";
import { type AnySandbox, accessTo, createUnder, type Policy, sdks } from "../clients.ts";

const { Sandbox } = sdks["3.5.0"];
const undo = new AsyncDisposableStack();
let internet: Internet;
let daemon: TestDaemon;

beforeAll(async () => {
  if (!has("root")) return;
  internet = await openInternet(undo);
  daemon = await startDaemonOn(internet, undo);
});
afterAll(() => undo.disposeAsync());
beforeEach((context) => needs(context, "root", "the command curl", "the command tcpdump"));

/** curl's output for a request without an answer */
const outcomes: Record<number, string> = { 0: "reached", 6: "no name", 7: "no connection", 35: "denied", 56: "cut" };

describe("a policy", () => {
  test("is in force from the first packet on, and changes while the sandbox runs", async () => {
    const sandbox = await create({ allow: ["web.test"] });
    expect(await reach(sandbox)).toEqual({ web: "reached", other: "no name", "other by address": "denied" });
    await sandbox.updateNetworkPolicy({ allow: ["*.test"], subnets: { deny: [`${webAddress}/32`] } });
    expect(await reach(sandbox)).toEqual({ web: "denied", other: "reached", "other by address": "reached" });
    await sandbox.updateNetworkPolicy("allow-all");
    expect(await reach(sandbox)).toEqual({ web: "reached", other: "reached", "other by address": "reached" });
    await sandbox.updateNetworkPolicy({ allow: { "web.test": [] } });
    expect(await reach(sandbox)).toEqual({ web: "reached", other: "no name", "other by address": "denied" });
    await sandbox.updateNetworkPolicy("deny-all");
    const nothing = { web: "no name", other: "no name", "other by address": "no connection" };
    expect(await reach(sandbox)).toEqual(nothing);
    await sandbox.delete();
  });

  test.each([
    ["empty", {}],
    ["of denied subnets only", { subnets: { deny: ["10.0.0.0/8"] } }],
    ["deny-all", "deny-all" as const],
  ])("%s lets no packet out", async (_, policy) => {
    const sandbox = await create(policy);
    const watch = await watchWire(undo, internet);
    const script = `
      curl -sk --max-time 5 https://web.test/; curl -sk --max-time 5 https://${webAddress}/; curl -s -6 https://[2606:2800:220:1::1]/
      ping -c 1 -W 1 ${webAddress}; echo x > /dev/udp/${webAddress}/7; echo x > /dev/udp/${nameServer}/53
      python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).sendto(bytes(8), ("${webAddress}", 0))'
      sudo python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 255).sendto(bytes(40), ("${webAddress}", 0))'`;
    await sandbox.runCommand("bash", ["-c", script]);
    expect(await watch.packets()).toEqual([]);
    await sandbox.delete();
  });

  test("with only allowed subnets lets every name resolve", async () => {
    const sandbox = await create({ subnets: { allow: [`${otherAddress}/32`] } });
    expect(await reach(sandbox)).toEqual({ web: "denied", other: "reached", "other by address": "reached" });
    const plain = await sandbox.runCommand("curl", ["-s", `http://${otherAddress}/`]);
    expect(await plain.stdout()).toBe(`page for ${otherAddress}`);
    await sandbox.delete();
  });

  test("shows the program inside what is missing", async () => {
    const sandbox = await create({ allow: ["web.test"] });
    const refused = await sandbox.runCommand("curl", ["-s", "-w", "%{http_code}", `http://${evilAddress}/secret?a=1`]);
    const text = await refused.stdout();
    expect(text).toMatch(/403$/);
    expect(JSON.parse(text.slice(0, -3)).error).toMatchObject({
      code: "egress_denied",
      missing: { subnets: { allow: [`${evilAddress}/32`] } },
    });
    await sandbox.delete();
  });
});

test("a policy outlives a stop, and a fork has it too", async () => {
  const sandbox = await create({ allow: ["web.test"] }, true);
  await sandbox.stop();
  const again = await Sandbox.get({ ...accessTo(daemon), name: sandbox.name, resume: true });
  const fork = await Sandbox.fork({ ...accessTo(daemon), sourceSandbox: sandbox.name });
  for (const each of [again, fork]) {
    expect(await reach(each)).toEqual({ web: "reached", other: "no name", "other by address": "denied" });
  }
  await Promise.all([again.delete(), fork.delete()]);
});

test("only the egress process gets the secrets of a policy", async () => {
  const secret = "a-secret-that-nobody-sees";
  const rules = [{ transform: [{ headers: { authorization: secret } }] }];
  const sandbox = await create({ allow: { "web.test": rules, "*.test": [] } });
  await sandbox.updateNetworkPolicy({ allow: { "web.test": rules, "other.test": [] } });
  expect(await reach(sandbox)).toMatchObject({ other: "reached" });
  const search = await promisify(execFile)("grep", [
    "-rlF",
    "--exclude=*.img",
    secret,
    daemon.dataDir,
    daemon.runDir,
  ]).catch(({ stdout, code }) => ({ stdout, code }));
  expect(search).toEqual({ stdout: "", code: 1 });
  for (const pid of processesOf(daemon.dataDir)) {
    for (const file of ["cmdline", "environ"])
      expect(readFileSync(`/proc/${pid}/${file}`, "utf8")).not.toContain(secret);
  }
  const inside = await sandbox.runCommand("sh", [
    "-c",
    "env; cat /proc/*/environ /proc/*/cmdline; grep -rF secret-that /etc /tmp",
  ]);
  expect(await inside.output("both")).not.toContain(secret);
  expect(daemon.complaints()).not.toContain(secret);
  await sandbox.delete();
});

test("a policy stays in force when the daemon, the egress process, both, or the launcher die", async () => {
  const sandbox = await create({ allow: ["web.test"] });
  const held = { web: "reached", other: "no name", "other by address": "denied" };
  await daemon.kill9();
  await daemon.start();
  expect(await reach(sandbox)).toEqual(held);
  await kill(isEgress);
  expect(await reach(sandbox)).toEqual(held);
  await daemon.kill9();
  await kill(isEgress);
  await daemon.start();
  expect(await reach(sandbox)).toEqual(held);
  await kill(isLauncher);
  expect(await reach(sandbox)).toEqual(held);
  await sandbox.updateNetworkPolicy({ allow: ["other.test"] });
  expect(await reach(sandbox)).toEqual({ web: "no name", other: "reached", "other by address": "reached" });
  await sandbox.delete();
});

function create(networkPolicy: Policy, persistent = false): Promise<AnySandbox> {
  return createUnder(daemon, networkPolicy, persistent);
}

/** results over TLS: to an allowed host by name, to another by name, and to that one by address */
async function reach(sandbox: Pick<AnySandbox, "runCommand">): Promise<Record<string, string>> {
  const tries = {
    web: ["https://web.test/"],
    other: ["https://other.test/"],
    "other by address": ["https://other.test/", "--resolve", `other.test:443:${otherAddress}`],
  };
  const found = Object.entries(tries).map(async ([name, args]): Promise<[string, string]> => {
    const { exitCode } = await sandbox.runCommand("curl", [
      "-sk",
      "-4",
      "--max-time",
      "20",
      "-o",
      "/dev/null",
      ...args,
    ]);
    return [name, outcomes[exitCode] ?? `curl ended with ${exitCode}`];
  });
  return Object.fromEntries(await Promise.all(found));
}

/** kills the process, and waits for the next one */
async function kill(isIt: (command: string) => boolean): Promise<void> {
  const find = () => processesOf(daemon.dataDir).find((pid) => isIt(commandOf(pid)));
  const pid = await eventually("the process runs", find);
  process.kill(pid, "SIGKILL");
  await eventually("another one runs", () => {
    const next = find();
    return next !== undefined && next !== pid;
  });
}

function isEgress(command: string): boolean {
  return command.startsWith("sandkeep-egress");
}

/** netd and the agents are forks of it, but have names of their own */
function isLauncher(command: string): boolean {
  return command.includes("\0launch\0") && command.includes("sandkeep-guest");
}

function commandOf(pid: number): string {
  try {
    const name = readFileSync(`/proc/${pid}/comm`, "utf8").trim();
    return name.startsWith("sandkeep-netd") ? name : readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}
