/** The recipes of docs/images.md, tried on a real Debian image: needs a package mirror and minutes. */

import { execFile } from "node:child_process";
import { getServers, lookup } from "node:dns/promises";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, beforeEach, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { root, tempDir } from "../../harness/harness.ts";
import { sandkeepCommand } from "../../harness/package.ts";
import { outOfReach } from "../../runner/excuses.ts";
import { demand } from "../../runner/needs.ts";
import { type AnySandbox, accessTo, sdks } from "../clients.ts";

const run = promisify(execFile);
const archives = await archivesOfHost();
const indexes = ["pypi.org", "files.pythonhosted.org", "registry.npmjs.org"];
const daemon = daemonOfFile({
  SANDKEEP_POOL_HOT: "0",
  // Packages come from outside of this host. On some hosts their names lead to a mirror with an address that is not public.
  SANDKEEP_DNS: getServers().join(","),
  SANDKEEP_EGRESS_ALLOW: (await addressesOf([...archives, ...indexes])).join(","),
});
let isReached = true;
const packages = [
  ..."python3-numpy python3-pandas python3-matplotlib".split(" "),
  ..."postgresql redis-server chromium fonts-dejavu-core".split(" "),
];

beforeAll(async () => {
  demand("root", "the guest binary", "the command mmdebstrap");
  const { dataDir, runDir } = daemon();
  const places = ["--data-dir", dataDir, "--run-dir", runDir];
  const made = run(sandkeepCommand(), [
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

test("Playwright drives this Chromium", async () => {
  const sandbox = await create();
  const { stdout } = await run("tar", ["-C", join(root, "node_modules"), "-cz", "playwright-core"], {
    encoding: "buffer",
    maxBuffer: 256 << 20,
  });
  const script = `import { chromium } from "playwright-core";
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const page = await browser.newPage();
await page.setContent("<title>driven</title>");
console.log(await page.title());
await browser.close();
`;
  await sandbox.writeFiles([
    { path: "package.tgz", content: stdout },
    { path: "page.mjs", content: Buffer.from(script) },
  ]);
  await sh(sandbox, "mkdir node_modules && tar -xzf package.tgz -C node_modules");
  expect(await said(sandbox, "node", "page.mjs")).toBe("driven\n");
  await sandbox.delete();
});

test("a Dockerfile installs packages of Debian, PyPI and npm under a policy that allows only these", async (context) => {
  if (!(await isThere("https://pypi.org/simple/humanize/"))) return context.skip(outOfReach("PyPI"));
  if (!(await isThere("https://registry.npmjs.org/node"))) return context.skip(outOfReach("the npm registry"));
  const folder = await tempDir();
  await writeFile(
    join(folder, "Dockerfile"),
    `ARG BASE=none
FROM $BASE AS packages
USER root
RUN sed -i s,http:,https:, $(find /etc/apt/sources.list* -type f)
RUN apt-get update && apt-get install -y --no-install-recommends tree
RUN pip install --break-system-packages --root-user-action=ignore humanize
RUN npm install -g --prefix /usr/local node@22
FROM $BASE
COPY --from=packages /usr/local/lib/ /usr/local/lib/
COPY --from=packages /usr/bin/tree /usr/local/bin/
COPY --from=packages /usr/local/bin/node /usr/local/bin/
`,
  );
  const { url, key } = daemon();
  const env = { ...process.env, SANDKEEP_URL: url, SANDKEEP_API_KEY: key };
  const build = (network: string[]) =>
    run(
      sandkeepCommand(),
      ["image", "build", "-t", "packages", "--build-arg", "BASE=recipes", "--network", network.join(","), folder],
      { env, maxBuffer: 64 << 20 },
    );
  await expect(build(archives)).rejects.toThrow(/RUN pip install .* ended with exit code 1/s);
  await build([...archives, ...indexes]);
  const sandbox = await create("packages");
  expect(await sh(sandbox, "tree --version; python3 -c 'import humanize; print(humanize.intcomma(1000))'")).toMatch(
    /^tree v.*\n1,000\n$/s,
  );
  expect(await said(sandbox, "node", "--version")).toMatch(/^v22\./);
  await sandbox.delete();
}, 600_000);

function isThere(url: string): Promise<boolean> {
  return fetch(url, { method: "HEAD" }).then(
    ({ ok }) => ok,
    () => false,
  );
}

/** the names of the servers that this host's apt asks, as those of a Debian image do */
async function archivesOfHost(): Promise<string[]> {
  const lists = await readdir("/etc/apt/sources.list.d").catch(() => []);
  const files = ["/etc/apt/sources.list", ...lists.map((name) => join("/etc/apt/sources.list.d", name))];
  const texts = await Promise.all(files.map((file) => readFile(file, "utf8").catch(() => "")));
  const lines = texts
    .join("\n")
    .split("\n")
    .filter((line) => !line.startsWith("#"));
  return [...new Set([...lines.join("\n").matchAll(/https?:\/\/([^/\s]+)/g)].map(([, host = ""]) => host))];
}

async function addressesOf(names: string[]): Promise<string[]> {
  const found = await Promise.all(names.map((name) => lookup(name, { all: true }).catch(() => [])));
  return [...new Set(found.flat().map(({ address }) => address))];
}

function create(image = "recipes"): Promise<AnySandbox> {
  return sdks["3.5.0"].Sandbox.create({ ...accessTo(daemon()), image, timeout: 600_000 });
}

function sh(sandbox: AnySandbox, line: string): Promise<string> {
  return said(sandbox, "bash", "-c", line);
}

async function said(sandbox: AnySandbox, command: string, ...args: string[]): Promise<string> {
  const ended = await sandbox.runCommand(command, args);
  if (ended.exitCode !== 0) throw new Error(`"${command}" failed: ${await ended.stderr()}`);
  return ended.stdout();
}
