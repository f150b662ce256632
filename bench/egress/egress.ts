/**
 * Outbound traffic: the cost of a request through the egress process, relayed and with its TLS intercepted; the
 * throughput; the influence of another sandbox; and the cost of policies: one at a create, a thousand at once, and the
 * change of one of them. All against the private internet of the tests; "direct" is a program on the host, over the
 * same wire.
 */

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { Policy } from "../../test/e2e/clients.ts";
import type { TestDaemon } from "../../test/harness/daemon.ts";
import type { Undo } from "../../test/harness/harness.ts";
import { type Internet, openInternet } from "../../test/internet/internet.ts";
import { startDaemonOn, startTlsServers } from "../../test/internet/internet-daemon.ts";
import { webAddress } from "../../test/internet/internet-names.ts";
import { interleaved, median, type Series, type Subject, table, timed, verdict } from "../measure.ts";
import { benchNeighbour } from "./neighbour.ts";
import { create, outputOf, requests, requestTimes } from "./sandbox.ts";

/** how often the three alternate */
const turns = 10;
const megabytes = 512;
const creates = 30;
const many = 1000;
const changes = 20;

const ways: Record<"relayed" | "opened", Policy> = {
  relayed: { allow: ["web.test"] },
  opened: { allow: { "web.test": [{ transform: [{ headers: { "x-bench": "1" } }] }] } },
};

export async function benchEgress(undo: Undo): Promise<string> {
  const internet = await openInternet(undo);
  await startTlsServers(internet, undo);
  const daemon = await startDaemonOn(internet, undo, {
    SANDKEEP_MAX_SANDBOXES: String(many + 100),
    SANDKEEP_POOL_HOT: "16",
    SANDKEEP_POOL_WARM: "4",
  });
  const report = [
    await benchRequests(daemon, internet),
    await benchNeighbour(daemon),
    await benchCreates(daemon),
    await benchMany(daemon),
  ];
  return report.join("\n\n");
}

async function benchRequests(daemon: TestDaemon, internet: Internet): Promise<string> {
  const relayed = await create(daemon, ways.relayed);
  const opened = await create(daemon, ways.opened);
  const runs: Record<string, (command: string[]) => Promise<string>> = {
    direct: async ([file = "", ...args]) => {
      const program = file === "node" ? process.execPath : file;
      return (await promisify(execFile)(...internet.host.command(program, ...args))).stdout;
    },
    relayed: (command) => outputOf(relayed, command),
    opened: (command) => outputOf(opened, command),
  };
  const latency = Object.keys(runs).map((name): Series => ({ name, samples: [] }));
  const speed: Record<string, number[]> = { direct: [], relayed: [], opened: [] };
  for (let turn = -1; turn < turns; turn++) {
    for (const { name, samples } of latency) {
      const took = requestTimes((await runs[name]?.(["node", "-e", requests])) ?? "[]");
      if (turn >= 0) samples.push(...took);
    }
  }
  for (let turn = 0; turn < 3; turn++) {
    for (const [name, run] of Object.entries(runs)) {
      const bytes = Number(await run(["curl", ...download]));
      speed[name]?.push(bytes / 2 ** 20);
    }
  }
  await Promise.all([relayed.delete(), opened.delete()]);
  const of = (name: string) => median(latency.find((series) => series.name === name)?.samples ?? []);
  const fastest = (name: string) => Math.max(...(speed[name] ?? []));
  return [
    table("an HTTPS request over a new connection", latency, "direct"),
    verdict("added when relayed", of("relayed") - of("direct"), 3, "ms"),
    verdict("added when TLS is opened", of("opened") - of("direct"), 3, "ms"),
    `download of ${megabytes} MiB over HTTPS, best of 3: ${Object.keys(runs)
      .map((name) => `${name} ${fastest(name).toFixed(0)} MiB/s`)
      .join(", ")}`,
    verdict("time for 300 MiB when relayed", 300 / fastest("relayed"), 1, "s"),
  ].join("\n");
}

const download = [
  ...["-sk", "--http1.1", "-o", "/dev/null", "-w", "%{speed_download}"],
  ...["--resolve", `web.test:8443:${webAddress}`, `https://web.test:8443/download/${megabytes}`],
];

async function benchCreates(daemon: TestDaemon): Promise<string> {
  const subject = (name: string, policy: Policy): Subject => ({
    name,
    async run() {
      const sandbox = await create(daemon, policy);
      return async () => {
        await sandbox.delete();
        await new Promise((resolve) => setTimeout(resolve, 60)); // the pool fills while nothing happens
      };
    },
  });
  const subjects = [
    subject("allow-all", "allow-all"),
    subject("custom", ways.relayed),
    subject("custom with rules", ways.opened),
  ];
  const series = await interleaved(subjects, creates);
  const of = (name: string) => median(series.find((one) => one.name === name)?.samples ?? []);
  return [
    table("create, from a program", series, "allow-all"),
    verdict("create with a custom policy", of("custom") / of("allow-all"), 1.3, "x allow-all"),
    verdict("create with rules", of("custom with rules") / of("allow-all"), 1.3, "x allow-all"),
  ].join("\n");
}

/** each sandbox has its own policy; measures how long the change of one takes, and until the sandbox notices */
async function benchMany(daemon: TestDaemon): Promise<string> {
  const sandboxes = [];
  for (let i = 0; i < many; i++) {
    sandboxes.push(
      await create(daemon, { allow: ["web.test", `only-${i}.test`], subnets: { deny: [`10.${i % 256}.0.0/16`] } }),
    );
  }
  const samples: number[] = [];
  for (let i = 0; i < changes; i++) {
    const one = sandboxes[(i * 37) % many];
    const { took } = await timed(async () => one?.updateNetworkPolicy({ allow: [`changed-${i}.test`] }));
    samples.push(took);
  }
  const worst = Math.max(...samples);
  for (let at = 0; at < many; at += 50) await Promise.all(sandboxes.slice(at, at + 50).map((each) => each.delete()));
  return [
    `${many} sandboxes, each with a policy of its own`,
    verdict("change of one, median", median(samples), 100, "ms"),
    verdict("change of one, longest", worst, 100, "ms"),
  ].join("\n");
}
