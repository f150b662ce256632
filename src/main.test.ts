/** The binary itself: its help, names that it does not know, and readers of its output that go. */

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { root, tempDir } from "../test/harness/harness.ts";
import { guestBinary, needs } from "../test/runner/needs.ts";
import { vercelConventions } from "./api/vercel/conventions.ts";
import { eachBounded } from "./base/concurrency/each-bounded.ts";
import { writeContexts } from "./cli/client/contexts.ts";
import { openOfflineStore } from "./cli/offline/offline-store.ts";

const run = promisify(execFile);
const main = join(root, "src/main.ts");

test("help is --help, also of a command", async () => {
  const said = async (...args: string[]) => (await run(process.execPath, [main, ...args])).stdout;
  expect(await said("help")).toBe(await said("--help"));
  expect(await said("help", "env")).toBe(await said("env", "--help"));
  expect(await said("help", "env")).toMatch(/^Usage: eval "\$\(sandkeep env/);
});

test("the help of every command has an example", async () => {
  const { stdout } = await run(process.execPath, [main, "--help"]);
  const names = [...stdout.matchAll(/^ {2}([a-z]+) {2,}/gm)]
    .map(([, name = ""]) => name)
    .filter((name) => name !== "help");
  expect(names.length).toBeGreaterThan(30);
  await eachBounded(4, names, async (name) => {
    const said = (await run(process.execPath, [main, name, "--help"])).stdout;
    expect(said, name).toMatch(/^Usage:/);
    expect(said, name).toMatch(/\n\nExample:\n {2}\S/);
  });
});

test("a command that only looks at images makes no data directory", async () => {
  const dataDir = join(await tempDir(), "never");
  await expect(run(process.execPath, [main, "image", "list", "--data-dir", dataDir])).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining(`Cannot work on the images of "${dataDir}": there is no such directory`),
  });
  expect(existsSync(dataDir)).toBe(false);
});

test("a misspelt command is answered with the one that was meant", async () => {
  await expect(run(process.execPath, [main, "serv"])).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /^sandkeep: Cannot do "serv": there is no such command\nhint: Did you mean "serve"\?\n$/,
    ),
  });
});

test("an error shows control characters as escapes", async () => {
  await expect(run(process.execPath, [main, "a\u001b]0;b\u0007"])).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^sandkeep: Cannot do "a\\u001b\]0;b\\u0007": there is no such command\nhint: /),
  });
});

test("a command ends quietly when the reader of its output has gone", async () => {
  // It answers only when nobody reads any more.
  const { promise: gone, resolve: readerWent } = Promise.withResolvers<void>();
  const page = { session: { id: "sbx_01234567890123456789" }, events: [{ id: 1, at: 1 }], more: false, next: 1 };
  const server = createServer((_, response) => void gone.then(() => response.end(JSON.stringify(page))));
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const child = spawn(process.execPath, [main, "egress", "work", "--json", "--url", url], {
    env: { ...process.env, SANDKEEP_API_KEY: "sk_of_a_test_only" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  child.stdout.destroy();
  readerWent();
  const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, "exit")]);
  expect({ stderr, code }).toEqual({ stderr: "", code: 141 });
});

test("an upgrade asks the daemon of the chosen context", async () => {
  const asked: unknown[] = [];
  const server = createServer(({ url, headers }, response) => {
    asked.push([url, headers.authorization]);
    response.end(JSON.stringify({ replaced: {}, waiting: {} }));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  const home = await tempDir();
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const env = { PATH: process.env.PATH, HOME: home, SANDKEEP_CONTEXT: "far" };
  writeContexts({ current: null, contexts: { far: { url, key: "sk_of_a_test_only" } } }, { HOME: home });
  const { stdout } = await run(process.execPath, [main, "upgrade"], { env });
  expect(stdout).toBe("Every process is of the daemon's build\n");
  expect(asked).toEqual([["/sandkeep/v1/upgrade", "Bearer sk_of_a_test_only"]]);
});

test("an export whose reader has had enough ends without a complaint", async () => {
  const server = createServer((_, response) => {
    const more = () => void (response.destroyed || response.write(Buffer.alloc(1 << 16), () => setImmediate(more)));
    more();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const child = spawn(process.execPath, [main, "image", "export", "h", "-o", "-", "--url", url], {
    env: { ...process.env, SANDKEEP_API_KEY: "sk_of_a_test_only" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  child.stdout.once("data", () => child.stdout.destroy());
  const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, "exit")]);
  expect({ stderr, code }).toEqual({ stderr: "", code: 141 });
});

test("a run loads neither an HTTP client, nor what an import of node:fs loads, nor modules that only other runs need", async () => {
  const sandbox = { name: "a", timeout: 1000, ports: [] };
  const command = { id: "cmd_1", sessionId: "sbx_1", exitCode: 4, endedAt: 1, endCause: null };
  const lines = [
    { type: "started", sandbox, command },
    { type: "ended", command },
  ];
  const server = createServer((_, response) => response.end(lines.map((line) => `${JSON.stringify(line)}\n`).join("")));
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const preload = join(await tempDir(), "loaded.cjs");
  await writeFile(
    preload,
    `const { registerHooks } = require("node:module");
    const own = [];
    registerHooks({ load: (url, context, next) => (url.includes("/src/") && own.push(url), next(url, context)) });
    process.on("exit", () => console.log(JSON.stringify([...own, ...process.moduleLoadList])));`,
  );
  const env = {
    ...process.env,
    SANDKEEP_URL: url,
    SANDKEEP_API_KEY: "sk_of_a_test_only",
    NODE_COMPILE_CACHE: "/.compile-cache",
  };
  const ran = await run(process.execPath, ["-r", preload, main, "run", "--", "true"], { env }).catch((error) => error);
  expect(ran).toMatchObject({ code: 4, stderr: "" });
  const loaded: string[] = JSON.parse(ran.stdout);
  const own = loaded.filter((name) => name.startsWith("file:")).map((name) => name.replace(/.*\/src\//, ""));
  expect(own.length, own.join(" ")).toBeLessThanOrEqual(12);
  for (const slow of ["undici", "_http", "internal/fs/promises", "internal/readline/interface"])
    expect(loaded.filter((name) => name.includes(slow))).toEqual([]);
});

test("an image command whose reader has gone closes what it has opened", async (context) => {
  needs(context, "root", "the guest binary", "the command mkfs.btrfs");
  const [dataDir, runDir] = [await tempDir(), await tempDir()];
  const places = ["--data-dir", dataDir, "--run-dir", runDir];
  const store = await openOfflineStore({
    dataDir,
    conventions: vercelConventions.image,
    runRoot: runDir,
    guest: async () => guestBinary,
  });
  const claim = await store.layers.claim();
  const layer = await store.layers.create(claim, async (files) => void (await files.write("/a", Buffer.from("a"))));
  const image = { layers: [layer.id], env: {}, user: "root", cwd: "/", createdAt: 0 };
  for (const name of ["one", "two"]) await store.images.put({ ...image, name });
  await claim.release();
  await store.close();
  const child = spawn(process.execPath, [main, "image", "list", ...places], { stdio: ["ignore", "pipe", "pipe"] });
  child.stdout.destroy();
  const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, "exit")]);
  expect({ stderr, code }).toEqual({ stderr: "", code: 141 });
  expect(await readFile("/proc/self/mountinfo", "utf8")).not.toContain(dataDir);
});

test("image commands put their sockets where SANDKEEP_RUN_DIR says, and refuse one that cannot be used", async (context) => {
  needs(context, "root", "the guest binary");
  const [dataDir, folder] = [await tempDir(), await tempDir()];
  const file = join(folder, "file");
  writeFileSync(file, "");
  const list = (env: NodeJS.ProcessEnv) =>
    run(process.execPath, [main, "image", "list", "--data-dir", dataDir], { env: { ...process.env, ...env } });
  await expect(list({ SANDKEEP_RUN_DIR: file })).rejects.toMatchObject({
    stderr: `sandkeep: Cannot use the run directory "${file}": "${file}" is not a directory\nhint: --run-dir or SANDKEEP_RUN_DIR names another one\n`,
  });
  expect(readdirSync(dataDir)).toEqual([]);
  await list({ SANDKEEP_RUN_DIR: join(folder, "run") });
  expect(existsSync(join(folder, "run"))).toBe(true);
});

test("recover refuses a data directory that is none with a sentence", async () => {
  const file = join(await tempDir(), "file");
  writeFileSync(file, "");
  await expect(run(process.execPath, [main, "recover", "--data-dir", file])).rejects.toMatchObject({
    stderr: `sandkeep: Cannot recover "${file}": there is no such directory\nhint: --data-dir or SANDKEEP_DATA_DIR names another one\n`,
  });
});

test.each([
  ["--data-dir", "data directory"],
  ["--run-dir", "run directory"],
])("serve refuses a %s that cannot be used before it makes anything", async (flag, what) => {
  const folder = await tempDir();
  const [file, other] = [join(folder, "file"), join(folder, "other")];
  writeFileSync(file, "");
  const places = { "--data-dir": other, "--run-dir": other, [flag]: file };
  const args = [main, "serve", "--port", "0", ...Object.entries(places).flat()];
  await expect(run(process.execPath, args)).rejects.toMatchObject({
    code: 1,
    stdout: "",
    stderr: expect.stringContaining(`Cannot use the ${what} "${file}": "${file}" is not a directory\nhint: ${flag} or`),
  });
  expect(existsSync(other)).toBe(false);
});

test("serve refuses a run directory whose sockets would have too long paths before it makes anything", async () => {
  const folder = await tempDir();
  const runDir = join(folder, "r".repeat(70));
  const args = [main, "serve", "--port", "0", "--data-dir", join(folder, "data"), "--run-dir", runDir];
  await expect(run(process.execPath, args)).rejects.toMatchObject({
    stderr: expect.stringContaining(`Cannot use the run directory "${runDir}": its path has `),
  });
  expect(readdirSync(folder)).toEqual([]);
});
