/**
 * A network whose servers have certificates of its own authority: programs in sandboxes trust what the host trusts,
 * whatever their image and whatever environment variables their callers set.
 */

import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { TestDaemon } from "../../harness/daemon.ts";
import { root, tempDir } from "../../harness/harness.ts";
import { sandkeepCommand } from "../../harness/package.ts";
import { type Internet, openInternet } from "../../internet/internet.ts";
import { startDaemonOn, startTlsServers } from "../../internet/internet-daemon.ts";
import { internetCertificate } from "../../internet/internet-tls.ts";
import { has, needs } from "../../runner/needs.ts";
import { type AnySandbox, accessTo, sandboxOf, sdks } from "../clients.ts";

const { Sandbox } = sdks["3.5.0"];
const run = promisify(execFile);
const site = "https://web.test:8443";
const undo = new AsyncDisposableStack();
let daemon: TestDaemon;
let internet: Internet;

beforeAll(async () => {
  if (!has("root")) return;
  internet = await openInternet(undo);
  await startTlsServers(internet, undo);
  daemon = await startDaemonOn(internet, undo, { SANDKEEP_SANDBOX_ENV: "COLOUR=blue,LIST=a,b" });
});
afterAll(() => undo.disposeAsync());
beforeEach((context) => needs(context, "root", "the command curl", "the command python3"));

const node = ["node", "-e", `fetch("${site}/").then((a) => a.json()).then((a) => console.log(a.method))`];
const python = [
  "/usr/bin/python3",
  "-c",
  `import json, urllib.request; print(json.load(urllib.request.urlopen("${site}/"))["method"])`,
];
const curl = ["curl", "-sS", `${site}/`];
const bare = ["env", "-i", "PATH=/usr/bin:/bin"];
const npm = [
  "sh",
  "-c",
  `cd $(mktemp -d) && npm install --registry ${site} --no-audit tiny-package && cat node_modules/tiny-package/package.json`,
];

describe("in the default image, the company's authority is trusted by", () => {
  const sandbox = sandboxOf(() => Sandbox.create({ ...accessTo(daemon), persistent: false }));

  test.each([
    ["curl", curl],
    ["curl without any variable", [...bare, ...curl]],
    ["python", python],
    ["python without any variable", [...bare, ...python]],
    ["node", node],
    ["node, by root", ["sudo", ...node]],
    ["npm install", npm],
    ["npm install, by root", ["sudo", ...npm]],
    ["git", ["git", "ls-remote", `${site}/repo.git`]],
    ["git without any variable", [...bare, "git", "ls-remote", `${site}/repo.git`]],
  ])("%s", async (_, command) => {
    expect(await output(sandbox(), command)).toMatch(/GET|refs\/heads|added 1 package/);
  });

  test("a node whose caller has a certificate of its own, or options", async () => {
    const mine = { NODE_EXTRA_CA_CERTS: "/nowhere.pem", NODE_OPTIONS: "--no-warnings" };
    expect(await output(sandbox(), node, mine)).toContain("GET");
  });

  test("Python programs with a list of their own, through a variable that points to the system's list", async () => {
    const told = await output(sandbox(), ["sh", "-c", "echo $REQUESTS_CA_BUNDLE $SSL_CERT_FILE"]);
    expect(told).toBe("/etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt\n");
  });

  test("java", async (context) => {
    needs(context, "the command javac");
    const program = `
      public class Ask {
        public static void main(String[] args) throws Exception {
          var connection = (java.net.HttpURLConnection) new java.net.URI("${site}/").toURL().openConnection();
          System.out.println(connection.getResponseCode());
        }
      }`;
    await output(sandbox(), ["sh", "-c", `cat > /tmp/Ask.java <<'JAVA'\n${program}\nJAVA`]);
    expect(await output(sandbox(), ["java", "/tmp/Ask.java"])).toBe("200\n");
    expect(await output(sandbox(), [...bare, "java", "/tmp/Ask.java"])).toBe("200\n");
  });
});

describe("in an imported image", () => {
  const sandbox = sandboxOf(async () => {
    await importThinImage();
    return Sandbox.create({ ...accessTo(daemon), persistent: false, image: "thin" });
  });

  test.each([
    ["curl", [...bare, ...curl]],
    ["python", python],
    ["node", node],
  ])("%s trusts it too", async (_, command) => {
    expect(await output(sandbox(), command)).toContain("GET");
  });
});

test("an authority that is in the host's own list of authorities, and in no setting, is trusted", async () => {
  await using own = new AsyncDisposableStack();
  const list = "/etc/ssl/certs/ca-certificates.crt";
  const bundle = join(await tempDir(own), "bundle.crt");
  await writeFile(bundle, (await readFile(list, "utf8")) + internetCertificate);
  // The daemon sees another list than this host, in a mount namespace of its own.
  const script = `mount --bind "$0" ${list} && exec "$@"`;
  const command: [string, ...string[]] = ["unshare", "--mount", "sh", "-c", script, bundle, sandkeepCommand(), "serve"];
  const other = await startDaemonOn(internet, own, { SANDKEEP_EGRESS_CA: "" }, { command, fromNothing: false });
  const sandbox = await Sandbox.create({ ...accessTo(other), persistent: false });
  for (const each of [curl, [...bare, ...python], node, npm])
    expect(await output(sandbox, each)).toMatch(/GET|added 1 package/);
  await sandbox.delete();
});

describe("variables of the operator's", () => {
  test("are set for every command, unless a sandbox or a command sets them", async () => {
    const sandbox = await Sandbox.create({ ...accessTo(daemon), persistent: false, env: { LIST: "mine" } });
    const show = ["sh", "-c", "echo $COLOUR $LIST"];
    expect(await output(sandbox, show)).toBe("blue mine\n");
    expect(await output(sandbox, show, { COLOUR: "red" })).toBe("red mine\n");
    await sandbox.delete();
    const other = await Sandbox.create({ ...accessTo(daemon), persistent: false });
    expect(await output(other, show)).toBe("blue a,b\n");
    await other.delete();
  });

  test("change at a restart, also in a running sandbox", async () => {
    const sandbox = await Sandbox.create({ ...accessTo(daemon), persistent: false });
    await daemon.stop();
    await daemon.start({ SANDKEEP_SANDBOX_ENV: '{"COLOUR":"green, and blue"}' });
    expect(await output(sandbox, ["sh", "-c", "echo $COLOUR"])).toBe("green, and blue\n");
    await sandbox.delete();
  });
});

async function output(sandbox: AnySandbox, command: string[], env: Record<string, string> = {}): Promise<string> {
  const [cmd = "", ...args] = command;
  const ended = await sandbox.runCommand({ cmd, args, env });
  const [stdout, stderr] = await Promise.all([ended.stdout(), ended.stderr()]);
  if (ended.exitCode !== 0) throw new Error(`${command.join(" ")} ended with ${ended.exitCode}: ${stderr}${stdout}`);
  return stdout;
}

/** a few programs of this host, their libraries, and the distribution's list of authorities */
async function importThinImage(): Promise<void> {
  const folder = await tempDir(undo);
  const programs = ["/usr/bin/curl", "/usr/bin/env", "/usr/bin/python3", "/usr/bin/sh", "/usr/bin/cat"];
  const { stdout: version } = await run("python3", ["-c", "import sys; print('%d.%d' % sys.version_info[:2])"]);
  const modules = `/usr/lib/python${version.trim()}`;
  const extensions = (await run("find", [modules, "-name", "_ssl*.so", "-o", "-name", "_hashlib*.so"])).stdout;
  const { stdout: linked } = await run("ldd", [...programs, process.execPath, ...extensions.trim().split("\n")]);
  const libraries = [...linked.matchAll(/(\/\S+) \(0x/g)].map(([, path = ""]) => path);
  const image = join(folder, "image");
  for (const path of new Set([...programs, ...libraries])) await copied(path, image);
  await cp(modules, join(image, modules), {
    recursive: true,
    filter: (path) => !/\/(test|tests|dist-packages|__pycache__|config-[^/]*)$/.test(path),
  });
  const authorities = await run("sh", ["-c", "cat /usr/share/ca-certificates/mozilla/*.crt"], { maxBuffer: 1 << 24 });
  await mkdir(join(image, "etc/ssl/certs"), { recursive: true });
  await writeFile(join(image, "etc/ssl/certs/ca-certificates.crt"), authorities.stdout);
  await mkdir(join(image, "usr/lib/ssl"), { recursive: true });
  await run("ln", ["-s", "/etc/ssl/certs/ca-certificates.crt", join(image, "usr/lib/ssl/cert.pem")]);
  await run("tar", ["-cf", join(folder, "layer.tar"), "-C", image, "."]);
  const digest = createHash("sha256")
    .update(await readFile(join(folder, "layer.tar")))
    .digest("hex");
  const config = { os: "linux", config: {}, rootfs: { type: "layers", diff_ids: [`sha256:${digest}`] } };
  await writeFile(join(folder, "config.json"), JSON.stringify(config));
  const manifest = [{ Config: "config.json", RepoTags: ["thin:latest"], Layers: ["layer.tar"] }];
  await writeFile(join(folder, "manifest.json"), JSON.stringify(manifest));
  const saved = join(folder, "saved.tar");
  await run("tar", ["-cf", saved, "-C", folder, "manifest.json", "config.json", "layer.tar"]);
  const main = join(root, "src/main.ts");
  await run(process.execPath, [main, "image", "import", saved, "--name", "thin", "--data-dir", daemon.dataDir]);
}

/** with /bin and /lib below /usr, where links lead on this host */
async function copied(path: string, image: string): Promise<void> {
  for (const folder of ["bin", "lib", "lib64", "sbin"]) {
    await mkdir(join(image, "usr", folder), { recursive: true });
    await run("ln", ["-sfn", `usr/${folder}`, join(image, folder)]);
  }
  const to = join(image, path.replace(/^\/(bin|lib|lib64|sbin)\//, "/usr/$1/"));
  await mkdir(dirname(to), { recursive: true });
  await run("cp", ["-L", path, to]);
}
