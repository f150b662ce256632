/** A host that reaches the internet only through a company's proxy, and its sandboxes, which have no setting for it. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { TestDaemon } from "../../harness/daemon.ts";
import { openInternet } from "../../internet/internet.ts";
import { startDaemonOn, startProxy, startTlsServers } from "../../internet/internet-daemon.ts";
import { nameServer, webAddress } from "../../internet/internet-names.ts";
import { has, needs } from "../../runner/needs.ts";
import { type AnySandbox, createUnder, type Policy, raw } from "../clients.ts";

/** the internet's end of the host's wire */
const gateway = "93.184.217.1";
const undo = new AsyncDisposableStack();
let daemon: TestDaemon;
const tunnels: string[] = [];

beforeAll(async () => {
  if (!has("root")) return;
  const internet = await openInternet(undo);
  await startTlsServers(internet, undo);
  await startProxy(internet, undo, (line) => tunnels.push(line));
  daemon = await startDaemonOn(internet, undo, {
    SANDKEEP_EGRESS_PROXY: `http://user:p%40ss%3Aword@${gateway}:3129`,
    SANDKEEP_EGRESS_ALLOW: "10.9.9.9",
  });
  // Only DNS, private addresses and the proxy can be reached directly.
  await internet.host.ip(
    "route del default",
    "-6 route del default",
    `route add ${nameServer} via ${gateway}`,
    `route add 10.9.9.9 via ${gateway}`,
  );
});
afterAll(() => undo.disposeAsync());
beforeEach((context) => {
  needs(context, "root", "the command curl");
  tunnels.length = 0;
});

describe("connections of sandboxes go through the proxy", () => {
  test.each<[what: string, policy: Policy, url: string, tunnel: string]>([
    ["under allow-all", "allow-all", "https://web.test/", `3129 ${webAddress}:443`],
    ["in plain HTTP", "allow-all", "http://web.test/", `3129 ${webAddress}:80`],
    ["of a named domain", { allow: ["web.test"] }, "https://web.test/", `3129 ${webAddress}:443`],
    [
      "whose TLS is opened",
      { allow: { "web.test": [{ transform: [{ headers: { "x-secret": "s3cret" } }] }] } },
      "https://web.test:8443/",
      `3129 ${webAddress}:8443`,
    ],
    [
      "that rules forward",
      { allow: { "web.test": [{ forwardURL: "http://web.test:8081/proxy" }] } },
      "https://web.test:8443/",
      `3129 ${webAddress}:8081`,
    ],
  ])("%s", async (_, policy, url, tunnel) => {
    const sandbox = await create(policy);
    expect(await curl(sandbox, url)).toMatch(/web\.test/);
    expect(tunnels).toContain(tunnel);
    await sandbox.delete();
  });

  test("except to what the operator has opened of the host's own network", async () => {
    const sandbox = await create("allow-all");
    expect(await curl(sandbox, "http://10.9.9.9/")).toBe("page for 10.9.9.9");
    expect(tunnels).toEqual([]);
    await sandbox.delete();
  });
});

test("a proxy that refuses a missing or wrong password is in the sandbox's log", async () => {
  await restarted({ SANDKEEP_EGRESS_PROXY: `http://${gateway}:3129` });
  const sandbox = await create("allow-all");
  expect(await curl(sandbox, "https://web.test/")).not.toContain("web.test");
  expect(new Set(tunnels)).toEqual(new Set(["3129 refused"]));
  const { json } = await raw(daemon, "GET", `/sandkeep/v1/sandboxes/${sandbox.name}/egress`);
  const failure = `Cannot connect to ${webAddress}:443: the proxy answers 407 Proxy Authentication Required`;
  expect(json.events).toContainEqual(expect.objectContaining({ allowed: true, port: 443, failure }));
  await sandbox.delete();
});

test("without credentials, by name if the setting says so, and not for excluded destinations", async () => {
  await restarted({ SANDKEEP_EGRESS_PROXY: `http://${gateway}:3128`, SANDKEEP_EGRESS_PROXY_NAMES: "true" });
  const sandbox = await create("allow-all");
  expect(await curl(sandbox, "https://web.test/")).toContain("web.test");
  expect(tunnels).toEqual(["3128 web.test:443"]);
  await restarted({ SANDKEEP_EGRESS_NO_PROXY: "test" });
  expect(await curl(sandbox, "https://web.test/")).not.toContain("web.test");
  expect(tunnels).toHaveLength(1);
  await restarted({ SANDKEEP_EGRESS_NO_PROXY: "" });
  await sandbox.delete();
});

test("the password is in no list of processes, in no file of the data directory and in no message", async () => {
  await restarted({ SANDKEEP_EGRESS_PROXY: `http://user:p%40ss%3Aword@${gateway}:3129` });
  const encoded = Buffer.from("user:p@ss:word").toString("base64");
  const pids = readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && Number(pid) !== daemon.pid);
  // Only the daemon has it, in its environment.
  const shown = pids.filter((pid) => ["cmdline", "environ"].some((file) => has64(read(`/proc/${pid}/${file}`))));
  expect(shown).toEqual([]);
  for (const name of readdirSync(daemon.dataDir)) expect(has64(read(join(daemon.dataDir, name))), name).toBe(false);
  expect(has64(daemon.complaints())).toBe(false);

  function has64(text: string): boolean {
    return text.includes(encoded) || text.includes("p%40ss") || text.includes("p@ss:word");
  }
});

async function restarted(changes: Parameters<TestDaemon["start"]>[0]): Promise<void> {
  await daemon.stop();
  await daemon.start(changes);
}

function create(networkPolicy: Policy): Promise<AnySandbox> {
  return createUnder(daemon, networkPolicy, false);
}

async function curl(sandbox: AnySandbox, url: string): Promise<string> {
  return (await sandbox.runCommand("curl", ["-sS", "-m", "10", url])).stdout();
}

/** empty if it is gone or not a file */
function read(file: string): string {
  try {
    return readFileSync(file, "latin1");
  } catch {
    return "";
  }
}
