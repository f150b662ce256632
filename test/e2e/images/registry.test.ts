/** Images from a real registry with TLS and a password, made by other tools: pulled by command and on demand, run, deleted. */

import { execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmod, copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startDaemon, type TestDaemon } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { imageMaker, putBusybox } from "../../harness/images/made-images.ts";
import { type RegistryOfTest, startRegistry } from "../../harness/images/registry.ts";
import { sandkeepCommand } from "../../harness/package.ts";
import { demand } from "../../runner/needs.ts";
import { type AnySandbox, accessTo, sdks } from "../clients.ts";
import { call, connect, type Progress } from "../mcp/mcp.ts";

const run = promisify(execFile);
const undo = new AsyncDisposableStack();
let registry: RegistryOfTest;
let daemon: TestDaemon;

beforeAll(async () => {
  demand("root", "the guest binary", "the command docker-registry", "the command skopeo", "the command umoci");
  registry = await startRegistry(undo);
  await makeImages(registry);
  daemon = await startDaemon(undo, {
    SANDKEEP_REGISTRIES: registry.host,
    SANDKEEP_PULL_POLICY: "always",
    SANDKEEP_EGRESS_CA: registry.ca,
    SANDKEEP_POOL_HOT: "0",
  });
});
afterAll(() => undo.disposeAsync());

test("a pull needs the password, which is read from standard input, sealed and never shown", async () => {
  const name = `${registry.host}/test/tiny:docker`;
  expect(await cli("image", "pull", name)).toMatch(
    /Cannot pull ".*": ".*" lets only others have it \("sandkeep registry login/,
  );
  expect(await cli("registry", "login", registry.host, "--user", registry.user, { input: "wrong\n" })).toMatch(
    /^logged in/,
  );
  expect(await cli("image", "pull", name)).toMatch(/lets only others have it/);
  const login = await cli("registry", "login", registry.host, "--user", registry.user, {
    input: `${registry.password}\n`,
  });
  expect(login).toBe(`logged in to ${registry.host} as ${registry.user}; nothing was asked of it yet\n`);
  expect(await cli("registry", "ls")).toBe(`${registry.host}  ${registry.user}\n`);
  expect(await readFile(join(daemon.dataDir, "registries.json"), "utf8")).not.toContain(registry.password);
  const pulled = await cli("image", "pull", name);
  expect(pulled).toMatch(/layer 1 of 2[\s\S]*100 % of [\s\S]*2 layers {2}\d+ MB/);
  expect(await cli("image", "pull", name)).toMatch(/it was here already/);
});

test("several creates at once boot from an image that is pulled on demand, once", async () => {
  const name = `${registry.host}/test/tiny:oci`;
  const sandboxes = await Promise.all(Array.from({ length: 4 }, () => create(name)));
  const [first] = sandboxes;
  const asked = registry
    .log()
    .split("\n")
    .filter((line) => line.includes("manifests/oci") && line.includes("http.response.status=200"));
  expect(asked).toHaveLength(1);

  // The image's own user, directory and environment apply; its layers are stacked.
  expect(await output(first, "sh", "-c", "id -un; pwd; echo $GREETING; cat /data/upper; ls /data")).toBe(
    "worker\n/data\nhello world\nupper\nupper\n",
  );
  // The capability of a file holds for a user without one.
  expect(await output(first, "sh", "-c", "cd /tmp; echo > mine; /bin/chown 7:8 mine; ls -ln mine")).toMatch(/ 7 +8 /);
  // busybox has no bash: the error has a code, and its sentence names bash.
  const missing = await first?.runCommand("bash", ["-c", "true"]).catch((error: unknown) => error);
  expect(JSON.stringify(missing, Object.getOwnPropertyNames(missing))).toMatch(
    /executable_not_found.*bash|bash.*executable_not_found/s,
  );
  await Promise.all(sandboxes.map((sandbox) => sandbox.delete()));
});

test("an image of only one static program runs it, and errors name what it lacks", async () => {
  const sandbox = await create(`${registry.host}/test/scratch:zstd`);
  expect(await output(sandbox, "/busybox", "echo", "alone")).toBe("alone\n");
  const missing = await sandbox.runCommand("sh", ["-c", "true"]).catch((error: unknown) => error);
  expect(JSON.stringify(missing, Object.getOwnPropertyNames(missing))).toMatch(/executable_not_found/);
  await sandbox.writeFiles([{ path: "/tmp/x", content: Buffer.from("files work without a shell") }]);
  expect(await output(sandbox, "/busybox", "cat", "/tmp/x")).toBe("files work without a shell");
  await sandbox.delete();
});

test("with the policy always, a create boots what the tag names now, and earlier sandboxes keep their files", async () => {
  const name = `${registry.host}/test/moving:1`;
  const push = (tag: string) => registry.push(`oci:${join(registry.folder, "layout")}:${tag}`, "test/moving:1");
  await push("tiny");
  const before = await create(name);
  const same = await create(name);
  await push("base");
  const after = await create(name);
  const shown = await Promise.all([before, same, after].map((sandbox) => output(sandbox, "/bin/ls", "/data")));
  expect(shown).toEqual(["upper\n", "upper\n", "lower\n"]);
  await Promise.all([before, same, after].map((sandbox) => sandbox.delete()));
});

test("an image's own command runs without being named, and gets the image's stop signal at a stop with a grace period", async () => {
  const image = `${registry.host}/test/own:1`;
  const { session } = await api("POST", "/sandboxes", { image });
  const replaced = await api("POST", `/sessions/${session.id}/commands`, { args: ["echo $GREETING to you"] });
  expect(replaced).toMatchObject({ command: "sh", args: ["-c", "echo $GREETING to you"] });
  expect(await api("GET", `/sessions/${session.id}/commands/${replaced.id}/wait`)).toMatchObject({ exitCode: 0 });
  const own = await api("POST", `/sessions/${session.id}/commands`, {});
  const path = `/sessions/${session.id}/commands/${own.id}`;
  await eventually("it waits for its signal", async () => (await answer("GET", `${path}/output`)).includes("ready"));
  expect(await api("POST", `/sessions/${session.id}/stop?grace=30000`)).toMatchObject({ state: "stopped" });
  expect(await api("GET", path)).toMatchObject({ exitCode: 7 });
  const { images } = await api("GET", "/images");
  expect(images.find((each: { name: string }) => each.name === image)).toMatchObject({
    ...{ entrypoint: ["sh", "-c"], command: [waits], stopSignal: "SIGUSR1", user: "worker", cwd: "/data" },
  });

  const run = await cli("run", image, "--url", daemon.url, "-e", "GREETING=once");
  expect(run).toBe("once\n");
  expect(await cli("run", `${registry.host}/test/scratch:zstd`, "--url", daemon.url)).toMatch(
    /Cannot run the command of the image: .*has neither ENTRYPOINT nor CMD/,
  );
});

test("events, and a client of MCP that asks for progress, say how much of an image has arrived", async () => {
  await registry.push(`oci:${join(registry.folder, "layout")}:large`, "test/large:1");
  const client = await connect(daemon, "2025-11-25", undo);
  const heard: Progress[] = [];
  const onprogress = (progress: Progress) => void heard.push(progress);
  const image = `${registry.host}/test/large:1`;
  const { sandbox } = await call(client, "create_sandbox", { image }, { onprogress });
  const { message } = heard.at(-1) ?? {};
  expect(message).toMatch(/^(\d+) of \1 MB of the image$/);
  const { events } = await api("GET", "/events?topics=image");
  const reports = events.filter((event: { image: string }) => event.image === image);
  expect(reports[0]).toMatchObject({ type: "image.pulling", received: 0, total: expect.any(Number) });
  expect(reports.at(-1)).toMatchObject({ type: "image.pulled" });
  await call(client, "delete_sandbox", { sandbox });
});

test("an image that cannot be pulled is refused clearly", async () => {
  const refused = async (name: string) => {
    const error: unknown = await create(name).catch((error: unknown) => error);
    return JSON.stringify(error, Object.getOwnPropertyNames(error));
  };
  expect(await refused(`${registry.host}/test/gone:v1`)).toMatch(/Cannot pull .*does not have it/);
  expect(await refused("registry.invalid/x:1")).toMatch(/is not here/);
});

test("images are listed with what they share, shown without control characters, and free their disk at once", async () => {
  const list = await cli("image", "ls");
  expect(list).toMatch(new RegExp(`${registry.host}/test/tiny:docker +- +2 +\\d+ MB +\\d+ MB +\\d+ \\w+ +\\d+[smhd]`));
  const evil = await cli("image", "history", `${registry.host}/test/scratch:zstd`);
  expect(evil).toContain("\\u{1b}]0;owned\\u{7}");
  const inspected = await cli("image", "inspect", `${registry.host}/test/scratch:zstd`);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there
  for (const printed of [evil, inspected]) expect(printed).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]/);
  expect(JSON.parse(inspected)).toMatchObject({ config: { labels: { evil: "\u001b[2J\u202e" } } });

  const layers = async () =>
    (await run("ls", [join(daemon.dataDir, "store/layers")])).stdout
      .split("\n")
      .filter((name) => /^(chain|image)-/.test(name));
  const before = (await layers()).length;
  await cli("image", "rm", `${registry.host}/test/scratch:zstd`);
  await eventually("its layers are gone", async () => (await layers()).length === before - 2);
  // The layers that another image has stay.
  await cli("image", "rm", `${registry.host}/test/tiny:docker`);
  expect(await cli("image", "ls")).not.toContain("tiny:docker");
  const sandbox = await create(`${registry.host}/test/tiny:oci`);
  expect(await output(sandbox, "cat", "upper")).toBe("upper\n");
  await sandbox.delete();
});

/** ends with 7 at its signal; at once where it has another greeting */
const waits =
  '[ "$GREETING" = once ] && exec echo once; trap "exit 7" USR1; echo ready; while :; do sleep 1000 & wait; done';

/** busybox with links, as umoci makes it, pushed in Docker's format and the OCI's; and one program alone, in the many frames of zstd:chunked */
async function makeImages({ folder, push }: RegistryOfTest): Promise<void> {
  const { at, layer, config } = await imageMaker(folder);
  await layer("base", "empty", async (root) => {
    await putBusybox(root);
    await mkdir(join(root, "data"));
    await copyFile("/bin/busybox", join(root, "bin/chown"));
    await run("setcap", ["cap_chown+ep", join(root, "bin/chown")]);
    await writeFile(join(root, "data/lower"), "lower\n");
  });
  await layer("tiny", "base", async (root) => {
    await run("rm", [join(root, "data/lower")]);
    await writeFile(join(root, "data/upper"), "upper\n");
  });
  const settings = ["--config.user", "worker", "--config.workingdir", "/data", "--config.env", "GREETING=hello world"];
  await config("tiny", ...settings, "--config.env", "PATH=/bin");
  const own = ["--config.entrypoint", "sh", "--config.entrypoint", "-c", "--config.cmd", waits];
  await config("tiny", "--tag", "own", ...own, "--config.stopsignal", "SIGUSR1");
  await layer("large", "base", (root) => writeFile(join(root, "data/random"), randomBytes(2 << 20)));
  await layer("scratch", "empty", async (root) => {
    await copyFile("/bin/busybox", join(root, "busybox"));
    await chmod(join(root, "busybox"), 0o755);
  });
  const evil = ["--config.label", "evil=\u001b[2J\u202e", "--history.created_by", "\u001b]0;owned\u0007"];
  await config("scratch", ...evil);
  await push(`oci:${at("tiny")}`, "test/tiny:docker", "--format", "v2s2");
  await push(`oci:${at("tiny")}`, "test/tiny:oci");
  await push(`oci:${at("own")}`, "test/own:1");
  await push(`oci:${at("scratch")}`, "test/scratch:zstd", "--dest-compress", "--dest-compress-format", "zstd:chunked");
}

function create(image: string): Promise<AnySandbox> {
  return sdks["3.5.0"].Sandbox.create({ ...accessTo(daemon), image, persistent: false });
}

async function answer(method: string, path: string, body?: unknown): Promise<string> {
  const headers = { authorization: `Bearer ${daemon.key}`, "content-type": "application/json" };
  const content = body === undefined ? {} : { body: JSON.stringify(body) };
  return (await fetch(`${daemon.url}/sandkeep/v1${path}`, { method, headers, ...content })).text();
}

async function api(method: string, path: string, body?: unknown) {
  return JSON.parse(await answer(method, path, body));
}

async function output(sandbox: AnySandbox | undefined, program: string, ...args: string[]): Promise<string> {
  const command = await sandbox?.runCommand(program, args);
  return `${(await command?.stdout()) ?? ""}${(await command?.stderr()) ?? ""}`;
}

/** all that a command prints, on both of its streams */
async function cli(...args: (string | { input: string })[]): Promise<string> {
  const words = args.filter((arg) => typeof arg === "string");
  const input = args.find((arg) => typeof arg !== "string")?.input ?? "";
  const own = { SANDKEEP_API_KEY: daemon.key, SANDKEEP_EGRESS_CA: registry.ca, DOCKER_CONFIG: registry.folder };
  const env = { ...process.env, ...own };
  const where = words[0] === "image" ? ["--run-dir", daemon.runDir] : [];
  const child = spawn(sandkeepCommand(), [...words, "--data-dir", daemon.dataDir, ...where], {
    env,
    stdio: ["pipe", "pipe", "pipe"],
  });
  child.stdin.end(input);
  const [out, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return `${errors}${out}`;
}
