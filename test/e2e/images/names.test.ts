/**
 * How callers name images, on every API: by digest, where an image is pulled once and then found without a registry, by
 * other forms of a name, and on E2B's API by template, which no registry is asked for.
 */

import { execFile } from "node:child_process";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { Sandbox } from "e2b";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startDaemon, type TestDaemon } from "../../harness/daemon.ts";
import { imageMaker, putBusybox } from "../../harness/images/made-images.ts";
import { type RegistryOfTest, startRegistry } from "../../harness/images/registry.ts";
import { sandkeepCommand } from "../../harness/package.ts";
import { demand } from "../../runner/needs.ts";
import { accessTo, sdks } from "../clients.ts";
import { instavm } from "../instavm/instavm.ts";
import { call, connect } from "../mcp/mcp.ts";

const run = promisify(execFile);
const undo = new AsyncDisposableStack();
const registryUndo = new AsyncDisposableStack();
let registry: RegistryOfTest;
let daemon: TestDaemon;
/** registry/repository@sha256:… of each image */
let pinned: Record<"pulled" | "wanted", string>;

beforeAll(async () => {
  demand("root", "the guest binary", "the command docker-registry", "the command skopeo", "the command umoci");
  registry = await startRegistry(registryUndo, { isOpen: true });
  const { at, layer, config } = await imageMaker(registry.folder);
  await layer("base", "empty", putBusybox);
  const push = async (tag: string) => {
    await layer(tag, "base", (root) => writeFile(join(root, "word"), `${tag}\n`));
    await config(tag, "--config.env", "PATH=/bin");
    await registry.push(`oci:${at(tag)}`, `test/${tag}:1`);
    const name = `docker://${registry.host}/test/${tag}:1`;
    const { stdout } = await run("skopeo", ["inspect", "--tls-verify=false", "--format", "{{.Digest}}", name]);
    return `${registry.host}/test/${tag}@${stdout.trim()}`;
  };
  pinned = { pulled: await push("pulled"), wanted: await push("wanted") };
  await registry.push(`oci:${at("base")}`, "library/listed:latest");
  daemon = await startDaemon(undo, { SANDKEEP_REGISTRY_HTTP: registry.host, SANDKEEP_POOL_HOT: "0" });
});
afterAll(async () => {
  await undo.disposeAsync();
  await registryUndo.disposeAsync();
});

test("an image that was pulled by digest is found by it on every API, and no registry is asked", async () => {
  expect(await cli("image", "pull", pinned.pulled)).toContain(":sha256-");
  await daemon.kill9();
  await daemon.start();
  const asked = registry.log();
  await expectFound(pinned.pulled, "pulled");
  const [, digest] = pinned.pulled.split("@");
  // A manifest is the same under every name.
  expect(await word(`another.example/app@${digest}`)).toBe("pulled\n");
  expect(registry.log()).toBe(asked);
  // The same pull again needs no registry either.
  expect(await cli("image", "pull", pinned.pulled)).toContain("it was here already");
  expect(registry.log()).toBe(asked);
  expect(await word(`${pinned.pulled.slice(0, -4)}0000`)).toMatch(/is not here/);
});

test("on E2B's API a name without a registry or a tag is a template's, and never pulled", async () => {
  await daemon.stop();
  const mirrors = `docker.io=${registry.host}`;
  await daemon.start({ SANDKEEP_REGISTRIES: "docker.io", SANDKEEP_REGISTRY_MIRRORS: mirrors });
  const create = (template: string) => Sandbox.create(template, { apiKey: daemon.key, apiUrl: daemon.url });
  const asked = registry.log();
  for (const name of ["listed", "lsted", "library/listed"]) {
    await expect(create(name), name).rejects.toThrow(`404: Template "${name}" not found`);
  }
  expect(registry.log()).toBe(asked);
  for (const name of ["listed:latest", "docker.io/library/listed"]) await (await create(name)).kill();
  expect(registry.log()).not.toBe(asked);
  // It is here now.
  await (await create("listed")).kill();
});

test("on E2B's and InstaVM's API, latest is the usual tag", async () => {
  expect(await cli("image", "ls")).toMatch(/^listed /m);
  const sandbox = await Sandbox.create("listed:latest", { apiKey: daemon.key, apiUrl: daemon.url });
  await sandbox.kill();
  await cli("image", "pull", pinned.pulled.replace(/@.*/, ":1"), "--name", "tagged:latest");
  const other = await Sandbox.create("tagged", { apiKey: daemon.key, apiUrl: daemon.url });
  await other.kill();
  for (const oci_image of ["listed:latest", "docker.io/library/listed:latest", "tagged"]) {
    const { status, json } = await instavm(() => daemon)("POST", "/v1/snapshots", { oci_image });
    expect([status, json]).toMatchObject([200, { status: "ready" }]);
  }
});

test("a create by digest pulls the image once; later ones need no registry, whatever the policy", async () => {
  await daemon.stop();
  await daemon.start({ SANDKEEP_REGISTRIES: registry.host });
  expect(await word(pinned.wanted)).toBe("wanted\n");
  for (const SANDKEEP_PULL_POLICY of ["missing", "always"]) {
    await daemon.stop();
    await daemon.start({ SANDKEEP_PULL_POLICY });
    const asked = registry.log();
    expect(await word(pinned.wanted)).toBe("wanted\n");
    expect(registry.log()).toBe(asked);
  }
  await registryUndo.disposeAsync();
  await expectFound(pinned.wanted, "wanted");
  expect(daemon.said() + daemon.complaints()).not.toContain("by its digest run the image");
});

test("images are listed, shown and deleted through a daemon elsewhere, as on its host", async () => {
  const ask = async (words: string[], env: Record<string, string> = {}) => {
    const { PATH, HOME } = process.env;
    const own = { PATH, HOME, SANDKEEP_API_KEY: daemon.key, SANDKEEP_DATA_DIR: "/nonexistent", ...env };
    const { stdout, stderr } = await run(sandkeepCommand(), ["image", ...words], { env: own }).catch(
      (error: { stdout: string; stderr: string }) => error,
    );
    return `${stdout}${stderr}`;
  };
  const url = ["--url", daemon.url];
  const [, hex = ""] = pinned.pulled.split("@sha256:");
  const listed = await ask(["ls", ...url]);
  expect(listed).toMatch(/^NAME +TEAM +LAYERS +SIZE +SHARED +OWN +AGE\n/);
  // Its layer of busybox is the one of another image, too.
  expect(listed).toMatch(/\/test\/pulled:sha256-\w+ +- +2 +2(\.\d)? MB +2(\.\d)? MB +\d+ (bytes|kB) +\d+[smh]\n/);
  expect(listed).toMatch(/^built-pulled +own +/m);
  const shown = JSON.parse(await ask(["inspect", pinned.pulled], { SANDKEEP_URL: daemon.url }));
  expect(shown).toMatchObject({ source: { reference: pinned.pulled, digest: `sha256:${hex}` }, own: false, layers: 2 });
  expect(shown.parts).toHaveLength(2);
  const offline = await cli("image", "history", shown.name);
  expect(await ask(["history", shown.name, ...url])).toBe(offline);
  expect(JSON.parse(await ask(["ls", "--json", ...url]))).toContainEqual(
    expect.objectContaining({ name: shown.name, size: shown.size }),
  );
  expect(await ask(["rm", "built-pulled", ...url])).toMatch(/^deleted built-pulled/);
  expect(await ask(["ls", ...url])).not.toContain("built-pulled");
  // The host's images are the operator's.
  expect(await ask(["rm", shown.name, ...url])).toMatch(/the team has no such image/);
  expect(await ask(["inspect", "gone", ...url])).toMatch(/Cannot show image "gone": there is no such image/);
  expect(await ask(["ls", "x", ...url])).toMatch(/it takes no name/);
});

/** the word in an image, as each API runs a sandbox from it */
async function expectFound(image: string, expected: string): Promise<void> {
  const own = { apiKey: daemon.key, apiUrl: daemon.url, sandboxUrl: daemon.url };
  const other = await Sandbox.create(image, own);
  expect(await other.files.read("/word")).toBe(`${expected}\n`);
  await other.kill();

  const vercel = await sdks["3.5.0"].Sandbox.create({ ...accessTo(daemon), image, persistent: false });
  expect(await (await vercel.runCommand("cat", ["/word"])).stdout()).toBe(`${expected}\n`);
  await vercel.delete();

  const client = await connect(daemon, "2025-11-25", undo);
  const { sandbox } = await call(client, "create_sandbox", { image });
  expect(sandbox).toBeDefined();
  await call(client, "delete_sandbox", { sandbox });

  const built = await instavm(() => daemon)("POST", "/v1/snapshots", {
    oci_image: image,
    build_args: { post_build_cmd: `read word < /word; [ "$word" = ${expected} ]` },
  });
  expect([built.status, built.json]).toMatchObject([200, { status: "ready" }]);

  expect(await cli("run", image, "cat", "/word")).toBe(`${expected}\n`);

  const folder = join(daemon.dataDir, "..", `context-${expected}-${process.pid}`);
  await mkdir(folder);
  undo.defer(() => rm(folder, { recursive: true }));
  await writeFile(join(folder, "Dockerfile"), `FROM ${image}\nRUN cat /word >> /word2\n`);
  await cli("image", "build", "-t", `built-${expected}`, folder);
  expect(await cli("run", `built-${expected}`, "cat", "/word2")).toBe(`${expected}\n`);
}

/** the word in an image, or the error */
function word(image: string): Promise<string> {
  return cli("run", image, "cat", "/word");
}

async function cli(...args: string[]): Promise<string> {
  const { SANDKEEP_REGISTRIES: _, ...rest } = process.env;
  const env = { ...rest, SANDKEEP_API_KEY: daemon.key, SANDKEEP_REGISTRY_HTTP: registry.host };
  const isOffline = args[0] === "image" && args[1] !== "build";
  const where = isOffline ? ["--data-dir", daemon.dataDir, "--run-dir", daemon.runDir] : ["--url", daemon.url];
  const { stdout, stderr } = await run(sandkeepCommand(), [args[0] ?? "", ...where, ...args.slice(1)], { env }).catch(
    (error: { stdout: string; stderr: string }) => error,
  );
  return `${stdout}${stdout === "" ? stderr : ""}`;
}
