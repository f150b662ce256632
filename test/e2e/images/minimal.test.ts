/**
 * Images that lack what most have: one like Alpine, with musl and busybox, and one like the distroless ones, with a program
 * and its libraries alone. They run, errors name the missing shell, and a snapshot of one is exported as an image.
 */

import { execFile } from "node:child_process";
import { copyFile, mkdir, mkdtemp, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { Sandbox } from "e2b";
import { beforeAll, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { putBusybox } from "../../harness/images/made-images.ts";
import { sandkeepCommand } from "../../harness/package.ts";
import { demand } from "../../runner/needs.ts";
import { type AnySandbox, accessTo, sdks } from "../clients.ts";

const run = promisify(execFile);
const daemon = daemonOfFile({ SANDKEEP_POOL_HOT: "0" });
/** whom this SDK's commands run as where an image names nobody */
const user = "vercel-sandbox";
let folder: string;

beforeAll(async () => {
  demand("root", "the guest binary", "the command musl-gcc", "the command cc", "the command skopeo");
  folder = await mkdtemp(join(tmpdir(), "sandkeep-minimal-"));
  await writeFile(join(folder, "who.c"), program);
  await importRoot("alpine-like:1", putAlpine);
  await importRoot("distroless-like:1", putDistroless);
  return () => rm(folder, { recursive: true });
});

test.each(["alpine-like:1", "distroless-like:1"])("programs of %s run with its own C library", async (image) => {
  const sandbox = await create(image);
  // The library looks the user up, and reads and writes files.
  expect(await output(sandbox, "/usr/bin/who", "/tmp/made")).toBe(`${user} wrote /tmp/made\n`);
  expect((await sandbox.readFileToBuffer({ path: "/tmp/made" }))?.toString()).toBe(`made by ${user}\n`);
  await sandbox.writeFiles([{ path: "/tmp/given", content: Buffer.from("given") }]);
  expect((await sandbox.readFileToBuffer({ path: "/tmp/given" }))?.toString()).toBe("given");
  await sandbox.delete();
});

test("the image with musl has a shell and none of our programs for GNU's C library", async () => {
  const sandbox = await create("alpine-like:1");
  expect(await output(sandbox, "sh", "-c", "cat /etc/alpine-release; ls /lib")).toMatch(
    /^3\.20\.0\nld-musl-.*\nlibc\.so\n$/,
  );
  const missing = await sandbox.runCommand("node", ["-v"]).catch((error: unknown) => error);
  expect(JSON.stringify(missing, Object.getOwnPropertyNames(missing))).toMatch(/executable_not_found/);
  await sandbox.delete();
});

test.each(["alpine-like:1", "distroless-like:1"])(
  "E2B's commands.run, which needs bash, says that %s has none",
  async (image) => {
    const sandbox = await Sandbox.create(image, {
      apiKey: daemon().key,
      apiUrl: daemon().url,
      sandboxUrl: daemon().url,
    });
    const said = await sandbox.commands.run("echo hi", { user: "root" }).then(
      () => "it ran",
      (error: Error) => error.message,
    );
    expect(said).toContain('Cannot run "/bin/bash": the executable or its interpreter was not found');
    await sandbox.files.write("/tmp/file", "files need no shell", { user: "root" });
    expect(await sandbox.files.read("/tmp/file", { user: "root" })).toBe("files need no shell");
    await sandbox.kill();
  },
);

test("a snapshot of an imported image becomes an image that skopeo reads, and its import runs", async () => {
  const sandbox = await create("distroless-like:1");
  await output(sandbox, "/usr/bin/who", "/tmp/made");
  const { snapshotId } = await sandbox.snapshot();
  await cli("image", "from-snapshot", snapshotId, "trained:1", "--url", daemon().url);
  const archive = join(folder, "trained.tar");
  await cli("image", "export", "trained:1", "-o", archive, "--url", daemon().url);
  const { stdout } = await run("skopeo", ["inspect", "--config", `oci-archive:${archive}`]);
  expect(JSON.parse(stdout)).toMatchObject({ os: "linux", rootfs: { type: "layers", diff_ids: [expect.any(String)] } });
  const copy = join(folder, "copy.tar");
  await run("skopeo", ["copy", "--quiet", "--insecure-policy", `docker-archive:${archive}`, `oci-archive:${copy}:x`]);
  await cli("image", "import", copy, "--name", "again:1", "--data-dir", daemon().dataDir, "--run-dir", daemon().runDir);
  const again = await create("again:1");
  expect((await again.readFileToBuffer({ path: "/tmp/made" }))?.toString()).toBe(`made by ${user}\n`);
  expect(await output(again, "/usr/bin/who", "/tmp/more")).toBe(`${user} wrote /tmp/more\n`);
  await again.delete();
});

/** needs a library for its output, for files and for the names of users */
const program = `#include <pwd.h>
#include <stdio.h>
#include <unistd.h>
int main(int count, char **args) {
  struct passwd *user = getpwuid(getuid());
  FILE *file = fopen(args[1], "w");
  if (count != 2 || !user || !file) return 1;
  fprintf(file, "made by %s\\n", user->pw_name);
  printf("%s wrote %s\\n", user->pw_name, args[1]);
  return fclose(file);
}
`;

async function putAlpine(root: string): Promise<void> {
  await putBusybox(root);
  await mkdir(join(root, "usr/bin"), { recursive: true });
  await run("musl-gcc", ["-o", join(root, "usr/bin/who"), join(folder, "who.c")]);
  await putLoader(root, join(root, "usr/bin/who"));
  await writeFile(join(root, "etc/alpine-release"), "3.20.0\n");
}

async function putDistroless(root: string): Promise<void> {
  for (const path of ["usr/bin", "etc"]) await mkdir(join(root, path), { recursive: true });
  await run("cc", ["-o", join(root, "usr/bin/who"), join(folder, "who.c")]);
  await putLoader(root, join(root, "usr/bin/who"));
  const { stdout } = await run("ldd", [join(root, "usr/bin/who")]);
  for (const [, path = ""] of stdout.matchAll(/=> (\/\S+)/g)) await put(root, path);
  await writeFile(join(root, "etc/passwd"), "root:x:0:0:root:/root:/sbin/nologin\n");
}

/** the program's dynamic loader, at the path that the program says */
async function putLoader(root: string, program: string): Promise<void> {
  const { stdout } = await run("readelf", ["-l", program]);
  const [, path = ""] = /interpreter: (\S+)\]/.exec(stdout) ?? [];
  await put(root, path);
}

async function put(root: string, path: string): Promise<void> {
  const real = await realpath(path);
  await mkdir(join(root, dirname(path)), { recursive: true });
  await copyFile(real, join(root, dirname(path), basename(real)));
  if (basename(real) !== basename(path)) await symlink(basename(real), join(root, path));
}

async function importRoot(name: string, fill: (root: string) => Promise<void>): Promise<void> {
  const root = join(folder, name);
  await mkdir(root);
  await fill(root);
  const tar = `${root}.tar`;
  await run("tar", ["-C", root, "-cf", tar, "."]);
  await cli("image", "import", tar, "--name", name, "--data-dir", daemon().dataDir, "--run-dir", daemon().runDir);
}

function create(image: string): Promise<AnySandbox> {
  return sdks["3.5.0"].Sandbox.create({ ...accessTo(daemon()), image, persistent: false });
}

async function output(sandbox: AnySandbox, command: string, ...args: string[]): Promise<string> {
  const done = await sandbox.runCommand(command, args);
  return `${await done.stdout()}${await done.stderr()}`;
}

async function cli(...args: string[]): Promise<void> {
  await run(sandkeepCommand(), args, { env: { ...process.env, SANDKEEP_API_KEY: daemon().key } });
}
