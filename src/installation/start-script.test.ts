/** Tests of bin/sandkeep: which Node it runs and which it refuses, and that Node replaces its process. */

import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  appendFile,
  chmod,
  copyFile,
  link,
  mkdir,
  readFile,
  rename,
  rm,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import manifest from "../../package.json" with { type: "json" };
import { nodeDigests, refusalOf } from "../../scripts/packaged-node.mjs";
import { eventually, root, tempDir } from "../../test/harness/harness.ts";

const packageName = `node-linux-${process.arch}`;
const packagedNode = join(root, "node_modules", packageName, "bin/node");
const system = "/usr/bin:/bin";

// Programs in place of the packaged Node, whose 120 MB take half a second to check: one becomes it, the other succeeds.
// The choice of a script is made every time, that of a binary is remembered.
const standIn = Buffer.from(`#!/bin/sh\nexec '${packagedNode}' "$@"\n`);
const binary = await readFile("/bin/true");

test("the digests match the packages in package.json, and the installed Node matches its digest", async () => {
  const { optionalDependencies: packages } = manifest;
  expect(Object.keys(nodeDigests()).sort()).toEqual(Object.keys(packages).sort());
  const text = await readFile(join(root, "scripts/node-digests.txt"), "utf8");
  for (const version of Object.values(packages)) expect(text).toContain(`Node ${version}.`);
  expect(refusalOf(join(root, "node_modules"))).toBeUndefined();
});

test("without a recent Node on PATH it runs the packaged one, in any node_modules above it", async () => {
  const main = "console.log(process.execPath, ...process.argv.slice(2))";
  const { folder, run } = await installation({ main, node: "packaged" });
  const answers = [run(["a b", "c"]), run(["again"])];
  await rename(join(folder, "node_modules"), join(folder, "../node_modules"));
  answers.push(run([]));
  expect(answers.map(({ stderr }) => stderr)).toEqual(["", "", ""]);
  expect(answers.map(({ stdout }) => stdout)).toEqual([
    `${packagedNode} a b c\n`,
    `${packagedNode} again\n`,
    `${packagedNode}\n`,
  ]);
});

test("a packaged Node that differs from the published one is refused, even after the right one has run", async () => {
  const { folder, digests, run } = await installation({ main: "", node: binary });
  expect(run([])).toMatchObject({ status: 0, stderr: "" });
  expect(refusalOf(join(folder, "node_modules"), digests)).toBeUndefined();
  const node = join(folder, "node_modules", packageName, "bin/node");
  await copyFile(node, `${node}.new`);
  await appendFile(`${node}.new`, "\0");
  await rename(`${node}.new`, node);
  for (const attempt of [1, 2]) {
    const { status, stderr } = run([]);
    expect([attempt, status]).toEqual([attempt, 1]);
    expect(stderr).toMatch(
      /^sandkeep: Cannot run .*: it is not the Node of scripts\/node-digests\.txt, its SHA-256 is/,
    );
  }
  expect(refusalOf(join(folder, "node_modules"), digests)).toMatch(
    /^Cannot run .* it is not the Node of scripts\/node-digests.txt/,
  );
});

test("a packaged Node is checked again when it was written to, but not because a data directory links to it", async () => {
  const { folder, run } = await installation({ main: "", node: binary });
  const node = join(folder, "node_modules", packageName, "bin/node");
  expect(run([])).toMatchObject({ status: 0, stderr: "" });
  const wrong = await tempDir();
  await writeFile(join(wrong, "sha256sum"), "#!/bin/sh\necho 0\n", { mode: 0o755 });
  const PATH = `${wrong}:${system}`;
  await link(node, join(folder, "linked"));
  expect(run([], { PATH })).toMatchObject({ status: 0, stderr: "" });
  await utimes(node, 0, 0);
  expect(run([], { PATH })).toMatchObject({ status: 1, stderr: expect.stringContaining("its SHA-256 is 0 instead") });
});

test("the host's own Node runs it from version 24 on", async () => {
  const { run } = await installation({ main: "" });
  for (const [version, runs] of Object.entries({ "v18.20.0": false, "v24.0.0": true, "v26.1.0": true, weird: false })) {
    const host = await tempDir();
    await writeFile(
      join(host, "node"),
      `#!/bin/sh\nif [ "$1" = --version ]; then echo ${version}; else echo "host's own: $*"; fi\n`,
      { mode: 0o755 },
    );
    expect([version, run([], { PATH: `${host}:${system}` }).stdout.includes("host's own")]).toEqual([version, runs]);
  }
});

test("a choice is remembered until a Node is replaced or PATH leads to another one", async () => {
  const { run } = await installation({ main: "console.log(process.execPath)", node: "packaged" });
  const choosing = await tempDir();
  // Only choosing a Node asks for the processor.
  await writeFile(join(choosing, "uname"), "#!/bin/sh\necho chosen >&2; exec /bin/uname -m\n", { mode: 0o755 });
  const PATH = `${choosing}:${system}`;
  const first = run([], { PATH });
  expect(first).toMatchObject({ stdout: `${packagedNode}\n`, stderr: "chosen\n" });
  expect(run([], { PATH })).toMatchObject({ stdout: `${packagedNode}\n`, stderr: "" });
  const host = await tempDir();
  await writeFile(join(host, "node"), "#!/bin/sh\necho v18.0.0\n", { mode: 0o755 });
  const other = { PATH: `${choosing}:${host}:${system}` };
  expect(run([], other)).toMatchObject({ stdout: `${packagedNode}\n`, stderr: "chosen\n" });
  expect(run([], other).stderr).toBe("");
  // A script may be a version manager's, which runs another version elsewhere.
  for (const version of ["v99.0.0", "v98.0.0"]) {
    await writeFile(join(host, "node"), `#!/bin/sh\necho ${version}\n`);
    expect(run([], other)).toMatchObject({ stdout: `${version}\n`, stderr: "" });
  }
  expect(run([], { PATH }).stderr).toBe("");
});

test("a Node that npm puts on PATH does not count as the host's own", async () => {
  const { folder, run } = await installation({ main: "console.log(process.execPath)" });
  const bin = join(folder, "node_modules/.bin");
  await mkdir(bin);
  await writeFile(join(bin, "node"), "#!/bin/sh\necho v99.0.0\n", { mode: 0o755 });
  expect(run([], { PATH: `${bin}:${system}` }).stdout).toBe(`${packagedNode}\n`);
});

test("without a suitable Node the error says so", async () => {
  const { folder, run } = await installation({ main: "" });
  await rm(join(folder, "node_modules"), { recursive: true });
  expect(run([])).toMatchObject({
    status: 1,
    stderr: expect.stringMatching(/^sandkeep: Cannot find Node 24 or later: .*\nhint: install Sandkeep again/),
  });
});

test("Node replaces it: the exit code is the program's, a signal reaches it, and nothing is left", async () => {
  const { launcher } = await installation({
    main: 'process.on("SIGTERM", () => process.exit(7)); console.log(process.pid); setInterval(() => {}, 1e6)',
  });
  expect((await installation({ main: "process.exitCode = 42" })).run([]).status).toBe(42);
  const child = spawn(launcher, [], { env: { PATH: system }, stdio: ["ignore", "pipe", "inherit"] });
  let said = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    said += text;
  });
  const ended = new Promise((resolve) => child.once("exit", (code) => resolve(code)));
  await eventually("it runs", () => said.endsWith("\n"));
  expect(Number(said)).toBe(child.pid);
  child.kill("SIGTERM");
  expect(await ended).toBe(7);
});

/** a package with this main module, the launcher, and a Node or a program in its place; run through a link, as with npm */
async function installation({ main, node = standIn }: { main: string; node?: Buffer | "packaged" }) {
  const folder = join(await tempDir(), "sandkeep");
  for (const part of ["bin", "dist", "scripts", `node_modules/${packageName}/bin`])
    await mkdir(join(folder, part), { recursive: true });
  await copyFile(join(root, "bin/sandkeep"), join(folder, "bin/sandkeep"));
  await chmod(join(folder, "bin/sandkeep"), 0o755);
  await writeFile(join(folder, "dist/main.js"), main);
  const place = join(folder, "node_modules", packageName, "bin/node");
  const list = "scripts/node-digests.txt";
  let digests = nodeDigests();
  if (node === "packaged") {
    await symlink(packagedNode, place);
    await copyFile(join(root, list), join(folder, list));
  } else {
    await writeFile(place, node, { mode: 0o755 });
    digests = { [packageName]: createHash("sha256").update(node).digest("hex") };
    await writeFile(join(folder, list), `${digests[packageName]}  ${packageName}\n`);
  }
  const launcher = join(await tempDir(), "sandkeep");
  await symlink(join(folder, "bin/sandkeep"), launcher);
  const run = (args: string[], env: NodeJS.ProcessEnv = { PATH: system }) =>
    spawnSync(launcher, args, { env, encoding: "utf8" });
  return { folder, launcher, digests, run };
}
