/** Templates and secrets of E2B: its own SDK and command line use them, unmodified, and sandboxes start from templates. */

import { mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { BuildError, Sandbox, Secret, SecretNotFoundError, Template, waitForFile, waitForPort } from "e2b";
import { expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { tempDir } from "../../harness/harness.ts";
import { tarOf } from "../../harness/images/image-archives.ts";
import { TestRegistry } from "../../harness/images/test-registry.ts";
import { stopwatch } from "../../harness/stopwatch.ts";
import { needs } from "../../runner/needs.ts";
import { raw } from "../clients.ts";
import { cli, cliOnTerminal, secondTeam, useDaemon } from "./e2b.ts";

const daemon = daemonOfFile();
useDaemon(daemon);
const foreign = secondTeam(daemon);

const patient = { timeout: 60_000 };
/** the output of a command in a new sandbox of a template */
async function outputOf(template: string, command: string, options = {}): Promise<string> {
  const sandbox = await Sandbox.create(template, options);
  try {
    return (await sandbox.commands.run(command)).stdout;
  } finally {
    await sandbox.kill();
  }
}

function ask(method: string, path: string, body?: unknown, key = daemon().key) {
  return raw(daemon(), method, path, { headers: { "x-api-key": key }, ...(body !== undefined && { body }) });
}

test("a template that the SDK builds is what sandboxes start from", async () => {
  await using undo = new AsyncDisposableStack();
  const folder = await tempDir(undo);
  await mkdir(join(folder, "src/deep"), { recursive: true });
  await writeFile(join(folder, "src/a.txt"), "from the client\n");
  await writeFile(join(folder, "src/deep/b.txt"), "below\n");
  const template = Template({ fileContextPath: folder })
    .fromBaseImage()
    .setEnvs({ GREETING: "hello" })
    .runCmd("echo $GREETING from $(whoami) in $PWD > made.txt; echo said; echo warned >&2")
    .runCmd("echo root > /root-was-here", { user: "root" })
    .setWorkdir("app")
    .copy("src", "copied")
    .copy("src/*.txt", "/srv/", { user: "root", mode: 0o600 })
    .setStartCmd("echo $GREETING > started.txt; sleep 1000", waitForFile("/home/user/app/started.txt"));
  const lines: string[] = [];
  const onBuildLogs = (line: { message: string; level: string }) => void lines.push(`${line.level} ${line.message}`);
  expect(await Template.exists("walk")).toBe(false);
  const options = { cpuCount: 1, memoryMB: 512, tags: ["v1"], onBuildLogs };
  const built = await Template.build(template, "walk", options);
  expect(built).toMatchObject({ name: "walk", tags: ["v1"] });
  expect(lines).toContain("info said");
  expect(lines).toContain("warn warned");
  expect(await Template.exists("walk")).toBe(true);
  const sandbox = await Sandbox.create("walk:v1");
  const info = await sandbox.getInfo();
  expect(info).toMatchObject({ templateId: built.templateId, name: "walk", cpuCount: 1, memoryMB: 512 });
  const { stdout } = await sandbox.commands.run(
    "cat ../made.txt started.txt copied/a.txt copied/deep/b.txt; stat -c '%U %a' /srv/a.txt copied/a.txt; whoami; pwd; pgrep -c sleep",
  );
  expect(stdout.split("\n")).toEqual([
    "hello from user in /home/user",
    "hello",
    "from the client",
    "below",
    "root 600",
    "user 644",
    "user",
    "/home/user/app",
    "1",
    "",
  ]);
  const listed = await ask("GET", "/v2/sandboxes?template=walk");
  expect(listed.json).toMatchObject([{ sandboxID: sandbox.sandboxId, templateID: built.templateId, alias: "walk" }]);
  await sandbox.kill();
  await expect(Sandbox.create("walk")).rejects.toThrow(/404.*"default"/);

  // The same files and steps are not sent and run again; what is forced runs.
  lines.length = 0;
  await Template.build(template, "walk", options);
  expect(lines.filter((line) => line.includes("already cached"))).toHaveLength(2);
  expect(lines).not.toContain("info said");
  await Template.build(template, "walk", { ...options, skipCache: true });
  expect(lines).toContain("info said");

  // A template begins with another one, its settings and its start command.
  await Template.build(Template().fromTemplate("walk:v1").runCmd("echo more >> copied/a.txt"), "walk-more");
  expect(await outputOf("walk-more", "cat copied/a.txt started.txt; echo $PWD")).toBe(
    "from the client\nmore\nhello\n/home/user/app\n",
  );
});

test("tags name builds, and a build that fails changes none of them", async () => {
  const one = await Template.build(Template().fromImage("base").runCmd("echo one > n"), "tagged:stable");
  const two = await Template.buildInBackground(Template().fromImage("base").runCmd("echo two > n"), "tagged");
  await expect.poll(async () => (await Template.getBuildStatus(two)).status, patient).toBe("ready");
  expect(await outputOf("tagged", "cat n")).toBe("two\n");
  expect(await Template.assignTags("tagged:stable", ["kept", "default"])).toMatchObject({ buildId: one.buildId });
  expect(await outputOf("tagged", "cat n")).toBe("one\n");
  await Template.removeTags("tagged", "stable");
  await expect(Template.removeTags("tagged", "stable")).rejects.toThrow(/not found/);
  const tags = await Template.getTags(one.templateId);
  expect(tags.map(({ tag, buildId }) => [tag, buildId]).sort()).toEqual([
    ["default", one.buildId],
    ["kept", one.buildId],
  ]);
  const broken = Template().fromImage("base").runCmd("echo fine").runCmd("echo why >&2; exit 3");
  const failed = Template.build(broken, "tagged");
  await expect(failed).rejects.toThrow(BuildError);
  await expect(failed).rejects.toThrow(/exit code 3.*\s.*why/);
  expect(await outputOf("tagged:kept", "cat n")).toBe("one\n");
  const { json } = await ask("GET", `/templates/${one.templateId}`);
  expect(json.builds.map(({ status }: { status: string }) => status)).toEqual(["error", "ready", "ready"]);
  const of = `/templates/${one.templateId}/builds/${json.builds[0].buildID}`;
  expect((await ask("GET", `${of}/status?level=error`)).json).toMatchObject({
    status: "error",
    reason: { step: "2", message: expect.stringContaining("exit code 3") },
    logEntries: [{ level: "error", step: "2" }],
  });
  const backward = await ask("GET", `${of}/logs?direction=backward&limit=2&level=warn`);
  expect(backward.json.logs.map(({ level }: { level: string }) => level)).toEqual(["error", "warn"]);
});

test("every method of the builder does what it says, and many files are sent at once", async () => {
  await using undo = new AsyncDisposableStack();
  const folder = await tempDir(undo);
  await mkdir(join(folder, "pkg"));
  await writeFile(join(folder, "pkg/package.json"), '{"name":"greeter","version":"1.0.0","main":"index.js"}');
  await writeFile(join(folder, "pkg/index.js"), "module.exports = 'hello from npm'");
  const names = Array.from({ length: 6 }, (_, at) => `f${at}`);
  for (const name of names) await writeFile(join(folder, name), name);
  await writeFile(join(folder, "ignored"), "");
  await writeFile(join(folder, ".dockerignore"), "ignored\n");
  await symlink("f0", join(folder, "link"));
  const template = Template({ fileContextPath: folder })
    .fromTemplate("base")
    .setWorkdir("/srv/app")
    .setUser("root")
    .copy(names, "files/")
    .copyItems([
      { src: "link", dest: "files/kept-link" },
      { src: "link", dest: "resolved", resolveSymlinks: true, mode: 0o604, user: "user" },
      { src: "f1", dest: "plain", gzip: false, forceUpload: true },
      { src: "*", dest: "all/" },
    ])
    .makeDir(["made", "made too"], { mode: 0o705 })
    .rename("files/f5", "made/f5")
    .remove("files/f4", { force: true })
    .makeSymlink("made/f5", "linked")
    .setUser("builder")
    .setWorkdir("/home/builder")
    .runCmd(["id -un > who", "pwd >> who"])
    .copy("pkg", "pkg")
    .npmInstall("./pkg")
    .skipCache()
    .runCmd("date +%N > forced")
    .setReadyCmd("test -f forced");
  await Template.build(template, "methods");
  const script = [
    "cat who; ls /srv/app/files | wc -l; ls /srv/app/all | wc -l; node -p 'require(\"greeter\")'",
    "cd /srv/app; cat files/kept-link resolved plain linked; echo; stat -c '%U %a' resolved 'made too' files/f0; cat ~/forced",
  ].join(";");
  const built = await outputOf("methods", script);
  expect(built.split("\n").slice(0, -2)).toEqual([
    "builder",
    "/home/builder",
    "5",
    "9",
    "hello from npm",
    "f0f0f1f5",
    "user 604",
    "root 705",
    "root 644",
  ]);
  await Template.build(template, "methods");
  expect((await outputOf("methods", script)).split("\n").at(-2)).not.toBe(built.split("\n").at(-2));
});

test("a start command that fails, fails the build; a Dockerfile's CMD starts without a wait", async () => {
  const broken = Template()
    .fromImage("base")
    .runCmd("seq 30000") // more lines than the log keeps
    .setStartCmd("echo port is taken >&2; exit 3", waitForPort(1));
  const lines: string[] = [];
  const onBuildLogs = ({ message }: { message: string }) => void lines.push(message);
  const failed = Template.build(broken, "starts", { onBuildLogs });
  await expect(failed).rejects.toThrow(/start command ended with exit code 3.*\s.*port is taken/);
  expect(lines).toContain("12345");
  expect(lines.filter((line) => line.includes("log is full"))).toHaveLength(1);
  const { json } = await ask("GET", "/templates/starts");
  const of = `/templates/${json.templateID}/builds/${json.builds[0].buildID}`;
  expect((await ask("GET", `${of}/status?logsOffset=20000`)).json).toMatchObject({
    status: "error",
    reason: { step: "finalize" },
    logEntries: [{ level: "warn" }, { level: "error" }],
  });
  await expect(Sandbox.create("starts")).rejects.toThrow(/404/);
  const unknown = Template.build(Template().fromImage("no-such-image"), "starts");
  await expect(unknown).rejects.toThrow(/image "no-such-image" is not here/);
  const { json: after } = await ask("GET", "/templates/starts");
  const status = await ask("GET", `/templates/${json.templateID}/builds/${after.builds[0].buildID}/status`);
  expect(status.json.reason).toMatchObject({ step: "base" });

  const file = 'FROM e2bdev/base\nENV A=1\nARG B=2\nWORKDIR /srv\nRUN echo "$A$B" > made\nCMD ["sleep", "1000"]\n';
  await Template.build(Template().fromDockerfile(file), "starts");
  const lasted = stopwatch();
  expect(await outputOf("starts", "cat made; pwd; id -un; pgrep -fx 'sleep 1000' | wc -l")).toBe("12\n/srv\nuser\n1\n");
  // The wait of 20 s that the SDK adds is not repeated at each start.
  expect(lasted()).toBeLessThan(20_000);
});

test("the command line builds from a Dockerfile, lists, publishes and deletes", async () => {
  await using undo = new AsyncDisposableStack();
  const home = await tempDir(undo);
  await writeFile(join(home, "a.txt"), "sent\n");
  await writeFile(
    join(home, "e2b.Dockerfile"),
    "FROM e2bdev/base\nCOPY a.txt /srv/a.txt\nRUN echo made > /srv/b.txt\n",
  );
  const run = (...args: string[]) => cli(daemon(), home, ["template", ...args]);
  expect(await run("create", "from-cli", "--cmd", "touch /tmp/up", "--ready-cmd", "[ -f /tmp/up ]")).toMatchObject({
    code: 0,
  });
  expect(await outputOf("from-cli", "cat /srv/a.txt /srv/b.txt; ls /tmp/up; whoami")).toBe(
    "sent\nmade\n/tmp/up\nuser\n",
  );
  expect((await run("list")).stdout).toContain("from-cli");
  const { json } = await ask("GET", "/templates/aliases/from-cli");
  // Another team sees a template only once it is public.
  const theirs = { apiKey: foreign };
  await expect(Sandbox.create("default/from-cli", theirs)).rejects.toThrow(/400|404/);
  expect(await run("publish", "-y", json.templateID)).toMatchObject({ code: 0 });
  expect(await outputOf("default/from-cli", "cat /srv/b.txt", theirs)).toBe("made\n");
  expect((await ask("GET", "/templates/aliases/default%2Ffrom-cli", undefined, foreign)).status).toBe(403);
  expect((await ask("DELETE", `/templates/${json.templateID}`, undefined, foreign)).status).toBe(404);
  expect(await run("unpublish", "-y", json.templateID)).toMatchObject({ code: 0 });
  expect(await run("delete", "-y", json.templateID)).toMatchObject({ code: 0 });
  expect(await Template.exists("from-cli")).toBe(false);
  expect(await run("init", "--name", "fresh", "--language", "typescript")).toMatchObject({ code: 0 });
  await writeFile(
    join(home, "e2b.toml"),
    'template_id = "old"\ndockerfile = "e2b.Dockerfile"\nstart_cmd = "sleep 9"\n',
  );
  expect(await run("migrate", "--language", "typescript")).toMatchObject({ code: 0 });
  expect(await readFile(join(home, "template.ts"), "utf8")).toContain("sleep 9");
  expect(await run("build")).toMatchObject({ code: 1, stdout: expect.stringContaining("deprecated") });
  const auth = (word: string) => cli(daemon(), home, ["auth", word]);
  expect(await auth("info")).toMatchObject({ code: 0, stdout: "Not logged in\n" });
  for (const word of ["logout", "configure"]) expect(await auth(word)).toMatchObject({ code: 0 });
});

test("the command line on a terminal asks before it publishes and deletes what was chosen", async (context) => {
  needs(context, "the command python3");
  const home = await tempDir();
  const on = (...args: string[]) => cliOnTerminal(daemon(), home, ["template", ...args]);
  await Template.build(Template().fromImage("base"), "chosen");
  const publish = on("publish", "chosen");
  await publish.until(/really want to publish/);
  publish.type("y\n");
  await publish.until(/Published as: default\/chosen/);
  expect(await publish.ended, publish.output).toBe(0);
  const refused = on("unpublish", "chosen");
  await refused.until(/really want to unpublish/);
  refused.type("n\n");
  await refused.until(/Canceled/);
  expect((await ask("GET", "/templates/chosen")).json).toMatchObject({ public: true });
  const list = on("list");
  await list.until(/Public.*chosen/s);
  const names = async () =>
    (await ask("GET", "/templates")).json.flatMap((each: { aliases: string[] }) => each.aliases);
  for (const name of await names()) if (!["chosen", "walk"].includes(name)) await ask("DELETE", `/templates/${name}`);
  // The space bar chooses the first one of the list.
  const chosen = on("delete", "--select");
  await chosen.until(/Select sandbox templates/);
  chosen.type(" \n");
  await chosen.until(/really want to delete/);
  chosen.type("y\n");
  await chosen.until(/Deleting sandbox template/);
  expect(await chosen.ended, chosen.output).toBe(0);
  expect(await names()).toEqual(["walk"]);
});

test("secrets are kept by name, and their values only reach the network", async () => {
  const made = await Secret.create("token", "value-of-token", { metadata: { for: "tests" } });
  expect(made).toMatchObject({ name: "token", version: 1, metadata: { for: "tests" } });
  await expect(Secret.create("token", "again")).rejects.toThrow(/409/);
  expect(await Secret.update("token", "next-value")).toMatchObject({ secretId: made.secretId, version: 2 });
  expect(await Secret.exists("token")).toBe(true);
  expect((await ask("GET", "/secrets/token")).text).not.toContain("value");
  const listed = await Secret.list().nextItems();
  expect(listed.map(({ name }) => name)).toContain("token");
  const rules = { "example.com": [{ transform: { headers: { authorization: Secret.fill("token") } } }] };
  const sandbox = await Sandbox.create({ network: { rules } });
  expect(JSON.stringify(await sandbox.getInfo())).not.toContain("next-value");
  await sandbox.kill();
  const unknown = { "example.com": [{ transform: { headers: { authorization: Secret.fill("none") } } }] };
  await expect(Sandbox.create({ network: { rules: unknown } })).rejects.toThrow(/Secret "none" not found/);
  expect(await Secret.destroy("token")).toBe(true);
  expect(await Secret.destroy("token")).toBe(false);
  await expect(Secret.getInfo("token")).rejects.toThrow(SecretNotFoundError);
});

test("a build that the daemon does not survive has failed and says so; what was ready stays", async () => {
  await Template.build(Template().fromImage("base").runCmd("echo stays > n"), "survivor");
  const build = await Template.buildInBackground(Template().fromImage("base").runCmd("sleep 600"), "survivor");
  const log = async () => (await Template.getBuildStatus(build)).logEntries.map(({ message }) => message).join("\n");
  await expect.poll(log, patient).toContain("sleep 600");
  const running = await Sandbox.create("walk:v1", { timeoutMs: 300_000 });
  await daemon().kill9();
  const registry = await new TestRegistry().listen();
  registry.image("v1", [await tarOf([{ name: "from-registry", content: "pulled\n" }])]);
  await daemon().start({ SANDKEEP_REGISTRIES: registry.host, SANDKEEP_REGISTRY_HTTP: registry.host });
  const { status, reason } = await Template.getBuildStatus(build);
  expect([status, reason?.message]).toEqual(["error", expect.stringContaining("daemon was stopped")]);
  expect(await outputOf("survivor", "cat n")).toBe("stays\n");

  // The start command is still the same program, and runs again after a pause without memory.
  const started = "pgrep -f '^sleep 1000$'";
  const { stdout: before } = await running.commands.run(started);
  expect(before).toMatch(/^\d+\n$/);
  await running.commands.run("rm started.txt");
  await running.pause({ keepMemory: false });
  const resumed = await Sandbox.connect(running.sandboxId);
  expect((await resumed.commands.run(`cat started.txt; ${started}`)).stdout).toMatch(/^hello\n\d+\n$/);
  await resumed.kill();

  // An image that is not here is pulled for the build, without a shell in it.
  const folder = await tempDir();
  await writeFile(join(folder, "a.txt"), "copied\n");
  const pulled = Template({ fileContextPath: folder }).fromImage(`${registry.host}/team/app:v1`).copy("a.txt", "a.txt");
  const lines: string[] = [];
  await Template.build(pulled, "pulled", { onBuildLogs: ({ message }) => void lines.push(message) });
  expect(lines.join("\n")).toMatch(/Pulling .*team\/app:v1: \d+\.\d of \d+\.\d MB/);
  const small = await Sandbox.create("pulled");
  expect([await small.files.read("/from-registry"), await small.files.read("a.txt")]).toEqual(["pulled\n", "copied\n"]);
  await small.kill();
  const missing = Template.build(Template().fromImage(`${registry.host}/team/app:v2`), "pulled");
  await expect(missing).rejects.toThrow(/Cannot pull ".*team\/app:v2"/);
  const closed = { username: "a", password: "value-of-password" };
  const withPassword = Template.build(Template().fromImage("x", closed), "pulled");
  await expect(withPassword).rejects.toThrow(/credentials are not taken here/);
  expect(daemon().complaints()).not.toContain("value-of-password");
});
