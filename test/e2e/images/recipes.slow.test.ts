/** The recipes of docs/images.md, tried on a real Debian image: needs a package mirror and minutes. */

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { beforeAll, beforeEach, expect, test } from "vitest";
import { launcher } from "../../../src/installation/installation.ts";
import { daemonOfFile } from "../../harness/daemon.ts";
import { outOfReach } from "../../runner/excuses.ts";
import { demand } from "../../runner/needs.ts";
import { type AnySandbox, accessTo, sdks } from "../clients.ts";

const run = promisify(execFile);
const daemon = daemonOfFile({ SANDKEEP_POOL_HOT: "0" });
let isReached = true;
const packages = [
  ..."python3-numpy python3-pandas python3-matplotlib".split(" "),
  ..."postgresql redis-server chromium fonts-dejavu-core".split(" "),
];

beforeAll(async () => {
  demand("root", "the guest binary", "the command mmdebstrap");
  const { dataDir, runDir } = daemon();
  const places = ["--data-dir", dataDir, "--run-dir", runDir];
  const made = run(launcher, [
    "image",
    "build",
    "debian",
    "--name",
    "recipes",
    "--include",
    packages.join(","),
    ...places,
  ]);
  await made.catch((error: Error) => {
    isReached = !/Could not (resolve|connect)|Failed to fetch|Temporary failure/i.test(error.message);
    if (isReached) throw error;
  });
}, 1_800_000);
beforeEach((context) => context.skip(!isReached, outOfReach("Debian's archive")));

test("Python has numpy, pandas and matplotlib", async () => {
  const sandbox = await create();
  const script = `import numpy, pandas, matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plot
frame = pandas.DataFrame({"x": numpy.arange(5), "y": numpy.arange(5) ** 2})
frame.plot(x="x", y="y").figure.savefig("plot.png")
print(frame["y"].sum())`;
  expect(await said(sandbox, "python3", "-c", script)).toBe("30\n");
  expect(await said(sandbox, "head", "-c", "4", "plot.png")).toContain("PNG");
  await sandbox.delete();
});

test("PostgreSQL keeps its data over a stop and a resume", async () => {
  const sandbox = await create();
  const start = 'PATH=$(echo /usr/lib/postgresql/*/bin):$PATH; pg_ctl -D db -o "-k /tmp" -l db.log -w start >/dev/null';
  await sh(sandbox, "PATH=$(echo /usr/lib/postgresql/*/bin):$PATH; initdb -D db --auth=trust >/dev/null");
  await sh(sandbox, `${start}; psql -qh /tmp postgres -c 'create table t (n int); insert into t values (42)'`);
  await sandbox.stop();
  expect(await sh(sandbox, `${start}; psql -qAth /tmp postgres -c 'select n from t'`)).toBe("42\n");
  await sandbox.delete();
});

test("Redis keeps its data over a stop and a resume", async () => {
  const sandbox = await create();
  const start = "redis-server --daemonize yes --appendonly yes --save '' --dir $PWD >/dev/null";
  const ready = "until redis-cli ping >/dev/null 2>&1; do sleep 0.1; done";
  expect(await sh(sandbox, `${start}; ${ready}; redis-cli set key kept`)).toBe("OK\n");
  await sandbox.stop();
  expect(await sh(sandbox, `${start}; ${ready}; redis-cli get key`)).toBe("kept\n");
  await sandbox.delete();
});

test("Chromium renders a page without its own sandbox, and refuses to start with it", async () => {
  const sandbox = await create();
  const page = "data:text/html,<title>t</title><script>document.write(6*7)</script>";
  const chromium = (...flags: string[]) =>
    sh(sandbox, `chromium --headless --disable-gpu ${flags.join(" ")} --dump-dom '${page}' 2>&1 || true`);
  expect(await chromium("--no-sandbox")).toContain("<body>42</body>");
  expect(await chromium()).toContain("No usable sandbox!");
  await sandbox.delete();
});

function create(): Promise<AnySandbox> {
  return sdks["3.5.0"].Sandbox.create({ ...accessTo(daemon()), image: "recipes", timeout: 600_000 });
}

function sh(sandbox: AnySandbox, line: string): Promise<string> {
  return said(sandbox, "bash", "-c", line);
}

async function said(sandbox: AnySandbox, command: string, ...args: string[]): Promise<string> {
  const ended = await sandbox.runCommand(command, args);
  if (ended.exitCode !== 0) throw new Error(`"${command}" failed: ${await ended.stderr()}`);
  return ended.stdout();
}
