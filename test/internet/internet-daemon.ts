/** A daemon on the host of test/internet/internet.ts. It trusts the internet's authority; this process can reach it. */

import { spawn } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Settings, type Start, startDaemon, type TestDaemon } from "../harness/daemon.ts";
import { root, tempDir, type Undo } from "../harness/harness.ts";
import { bridge } from "../harness/network/bridge.ts";
import { ended, type Internet, linesOf } from "./internet.ts";
import { nameServer } from "./internet-names.ts";
import { internetCertificate } from "./internet-tls.ts";

export async function startDaemonOn(
  internet: Internet,
  undo: Undo,
  settings: Settings = {},
  start: Omit<Start, "namespace"> = {},
): Promise<TestDaemon> {
  const all = { SANDKEEP_DNS: nameServer, SANDKEEP_EGRESS_CA: await internetRoots(undo), ...settings };
  const inside = await startDaemon(undo, all, { ...start, namespace: internet.host });
  const url = await bridge(undo, internet.host, Number(new URL(inside.url).port));
  return Object.create(inside, { url: { value: url } });
}

/** the file with the certificates that the host trusts */
export async function internetRoots(undo: Undo): Promise<string> {
  const roots = join(await tempDir(undo), "internet.pem");
  await writeFile(roots, internetCertificate);
  return roots;
}

/** the servers of test/internet/egress-tls-servers.ts, in the internet */
export async function startTlsServers(internet: Internet, undo: Undo): Promise<void> {
  const script = join(root, "test/internet/egress-tls-servers.ts");
  const servers = spawn(...internet.world.command(process.execPath, script), { stdio: ["pipe", "pipe", "inherit"] });
  undo.defer(() => ended(servers));
  await linesOf(servers)();
}

/** the proxy of test/internet/proxy-servers.ts, in the internet; `told` gets each tunnel that it was asked for */
export async function startProxy(internet: Internet, undo: Undo, told: (line: string) => void): Promise<void> {
  const script = join(root, "test/internet/proxy-servers.ts");
  const proxy = spawn(...internet.world.command(process.execPath, script), { stdio: ["pipe", "pipe", "inherit"] });
  undo.defer(() => ended(proxy));
  const line = linesOf(proxy);
  await line();
  void (async () => {
    for (;;) told(await line());
  })().catch(() => undefined);
}
