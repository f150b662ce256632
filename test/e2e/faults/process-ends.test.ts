/** Processes beside the daemon that are killed: its log says which one ended, how, and what happens next. */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { processesOf } from "../../harness/traces.ts";
import { raw } from "../clients.ts";
import { create } from "./kept-files.ts";

const daemon = daemonOfFile({ SANDKEEP_LOG_FORMAT: "json" });

test("the log warns of each process that is killed, and everything keeps running", async () => {
  const session = await create(daemon(), "survivor");
  await expectWarning("sandkeep-egress", "egress", (pid) => {
    return `The egress process (process ${pid}) was ended by signal 9; another one is started`;
  });
  await expectWarning("sandkeep-keeper", "netd", () => {
    return "The keeper of the egress process has ended; the network process ends, too, to be started again with another one";
  });
  await expectWarning("sandkeep-netd", "netd", (pid) => {
    return `The network process (process ${pid}) was ended by signal 9; another one is started, with another egress process`;
  });
  await expectWarning("sandkeep-guest", "launcher", (pid, next) => {
    return `The launcher (process ${pid}) was ended by SIGKILL; process ${next} has taken its place, and sandboxes keep running`;
  });
  const path = `/v2/sandboxes/sessions/${session}`;
  const ran = await raw(daemon(), "POST", `${path}/cmd`, { body: { command: "true", args: [], wait: true } });
  expect(ran.text).toContain('"exitCode":0');
  const first = firstProcess(session);
  process.kill(first, "SIGKILL");
  const died = `The first process of a sandbox (process ${first}) died; the sandbox ends, and its files are kept`;
  await eventually("the log says so", () =>
    warnings().some((line) => line.msg === died && line.level === "warn" && line.session === session),
  );
  expect((await raw(daemon(), "GET", "/v2/sandboxes/survivor?resume=true")).status).toBe(200);
});

/** kills the process of this name and waits for its successor and for the sentence in the log, with this `process` */
async function expectWarning(
  name: string,
  part: string,
  sentence: (pid: number, next: number) => string,
): Promise<void> {
  const pid = await eventually(`${name} runs`, () => processCalled(name));
  process.kill(pid, "SIGKILL");
  const next = await eventually("another one runs", () => {
    const now = processCalled(name);
    return now !== pid && now;
  });
  await eventually(`the log says: ${sentence(pid, next)}`, () =>
    warnings().some((line) => line.msg === sentence(pid, next) && line.level === "warn" && line.process === part),
  );
}

function warnings(): Record<string, unknown>[] {
  const lines = daemon().complaints().split("\n").slice(0, -1);
  return lines.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line));
}

/** the daemon's only process of this name; undefined while there is none, or more than one */
function processCalled(name: string): number | undefined {
  const found = processesOf(daemon().dataDir).filter((pid) => nameOf(pid) === name);
  return found.length === 1 ? found[0] : undefined;
}

function nameOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/comm`, "utf8").trim();
  } catch {
    return "";
  }
}

function firstProcess(session: string): number {
  const machines = join(daemon().dataDir, "store/machines");
  // Those that are only prepared have no record.
  const paths = readdirSync(machines).map((name) => join(machines, name, "machine.json"));
  const records = paths.filter((path) => existsSync(path)).map((path) => JSON.parse(readFileSync(path, "utf8")));
  return records.find(({ id }) => id === session)?.pid;
}
