/** Files, snapshots, ports and events of sandboxes on the command line, against one daemon. */

import { chmod, mkdir, readdir, readFile, readlink, stat, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { tempDir } from "../../harness/harness.ts";
import { needs } from "../../runner/needs.ts";
import { Cli } from "./cli.ts";

const daemon = daemonOfFile();
const cli = new Cli(daemon);
beforeEach((context) => needs(context, "the command python3"));
const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());
let folder = "";

beforeAll(async () => {
  folder = await tempDir(undo);
  expect(await cli.run(["run", "--keep", "--name", "demo", "--", "true"])).toMatchObject({ code: 0 });
});

const inside = async (script: string) => (await cli.run(["exec", "demo", "--", "sh", "-c", script])).stdout;

test("cp copies files and directories both ways, with their modes and symlinks", async () => {
  const app = join(folder, "app");
  await mkdir(join(app, "bin"), { recursive: true });
  await writeFile(join(app, "bin/run"), "#!/bin/sh\necho ran\n");
  await chmod(join(app, "bin/run"), 0o755);
  await symlink("bin/run", join(app, "latest"));
  await writeFile(join(app, "wörd.txt"), Buffer.from([0, 255, 10]));
  // To a name that is free, then into a directory that is there, then its content alone.
  expect(await cli.run(["cp", app, "demo:/tmp/one"])).toEqual({ code: 0, stdout: "", stderr: "" });
  expect(await inside("/tmp/one/latest; stat -c %a /tmp/one/bin/run; od -An -tx1 /tmp/one/w*")).toBe(
    "ran\n755\n 00 ff 0a\n",
  );
  await cli.run(["cp", app, "demo:/tmp"]);
  await cli.run(["cp", `${app}/.`, "demo:/tmp/app/again"]);
  expect(await inside("cd /tmp/app; ls; ls again")).toBe("again\nbin\nlatest\nwörd.txt\nbin\nlatest\nwörd.txt\n");
  // A relative path begins where programs start.
  expect((await cli.json(["cp", join(app, "bin/run"), "demo:made/here"])).to).toMatch(/\/made\/here$/);
  expect(await inside("./made/here")).toBe("ran\n");
  const back = join(folder, "back");
  expect(await cli.run(["cp", "demo:/tmp/one", back])).toEqual({ code: 0, stdout: "", stderr: "" });
  expect(await readlink(join(back, "latest"))).toBe("bin/run");
  expect((await stat(join(back, "bin/run"))).mode & 0o777).toBe(0o755);
  expect([...(await readFile(join(back, "wörd.txt")))]).toEqual([0, 255, 10]);
  await cli.run(["cp", "demo:/tmp/one/bin/run", back]);
  expect(await readFile(join(back, "run"), "utf8")).toBe("#!/bin/sh\necho ran\n");
});

test("cp - takes and gives a file's bytes, and a directory's content as a tar", async () => {
  const bytes = Buffer.from([0, 255, 10, 128]);
  expect(await cli.run(["cp", "-", "demo:/tmp/deep/raw"], bytes)).toEqual({ code: 0, stdout: "", stderr: "" });
  expect(await inside("od -An -tx1 /tmp/deep/raw")).toBe(" 00 ff 0a 80\n");
  const made = join(folder, "made");
  await mkdir(made);
  await writeFile(join(made, "one"), "1");
  const sent = await cli.shell(
    `tar -C ${made} -cf - . | "$0" cp - demo:/tmp/many/ && "$0" cp demo:/tmp/many - | tar -tf -`,
  );
  expect(sent).toMatchObject({ code: 0, stdout: expect.stringMatching(/^(.*\n)*(\.\/)?one\n$/), stderr: "" });
  expect((await cli.shell('"$0" cp demo:/tmp/deep/raw - | od -An -tx1')).stdout).toBe(" 00 ff 0a 80\n");
  expect(await cli.run(["cp", "demo:/none", "-"])).toMatchObject({ code: 1, stdout: "" });
  const shown = cli.onTerminal(["cp", "demo:/tmp", "-"]);
  expect(await shown.ended, shown.output).toBe(1);
  expect(shown.output).toContain("hint: add | tar -x to unpack it here");
});

test("cp names what is missing, and copies nothing from sandbox to sandbox", async () => {
  const failures = [
    [["cp", join(folder, "none"), "demo:/tmp"], /^sandkeep: Cannot copy ".+none": it does not exist\n$/],
    [["cp", "demo:/none", folder], /^sandkeep: Cannot copy "\/none": it does not exist in the sandbox\n$/],
    [["cp", "demo:/tmp", join(folder, "app/bin/run")], /^sandkeep: Cannot copy "demo:\/tmp" to ".+": EEXIST: .+\n$/],
    [
      ["cp", "demo:/etc/passwd", join(folder, "no/x")],
      /^sandkeep: Cannot copy "demo:\/etc\/passwd" to ".+": ENOENT: .+\n$/,
    ],
    // What reads files for the daemon may not read this one.
    [
      ["cp", "demo:/proc/self/status", folder],
      /^sandkeep: Cannot copy .+: the daemon broke off\nhint: the daemon's log/,
    ],
    [["cp", "demo:/proc/self/status", "-"], /^sandkeep: Cannot copy .+: the daemon broke off\nhint: the daemon's log/],
    [["cp", "dmo:/tmp", folder], /\nhint: Did you mean "demo"\?\n$/],
    [["cp", "demo:/a", "demo:/b"], /^sandkeep: Cannot copy: give two paths, one of them as <sandbox>:<path>\n/],
  ] as const;
  for (const [args, words] of failures)
    expect(await cli.run([...args]), args.join(" ")).toMatchObject({ code: 1, stderr: expect.stringMatching(words) });
});

test("what is neither file, directory nor link is not copied, and that is said", async () => {
  const odd = join(folder, "odd");
  const told = "sandkeep: Left out 1 entry: only files, directories and links are copied\n";
  await cli.shell(`mkdir -p ${odd}/deep && touch ${odd}/file && mkfifo ${odd}/deep/pipe`);
  expect(await cli.run(["cp", odd, "demo:/tmp/"])).toMatchObject({ code: 0, stderr: told });
  expect((await cli.run(["exec", "demo", "--", "find", "/tmp/odd", "-type", "f"])).stdout).toBe("/tmp/odd/file\n");
  expect(await cli.run(["run", "-v", `${odd}:/odd`, "--", "ls", "/odd"])).toEqual({
    code: 0,
    stdout: "deep\nfile\n",
    stderr: told,
  });
  expect(await cli.run(["cp", `${odd}/deep/pipe`, "demo:/tmp"])).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/it is neither a file nor a directory\nhint: cp - copies what it reads\n$/),
  });
});

test("run -v copies a folder in, and --sync brings its changes back", async () => {
  const project = join(folder, "project");
  await mkdir(join(project, "src"), { recursive: true });
  await writeFile(join(project, "src/a"), "a\n");
  await writeFile(join(project, "gone"), "");
  const script = "pwd; cat src/a; echo b > src/b; rm gone; exit 2";
  const dry = await cli.run(["run", "-v", project, "--", "sh", "-c", script]);
  expect(dry).toMatchObject({ code: 2, stdout: expect.stringMatching(/\/project\na\n$/) });
  expect(await readFile(join(project, "gone"), "utf8")).toBe("");
  const ran = await cli.run(["run", "-v", `${project}:/work`, "--sync", "--", "sh", "-c", script]);
  expect(ran).toEqual({
    code: 2,
    stdout: "/work\na\n",
    stderr: `sandkeep: Brought back to "${project}": 1 written, 1 removed\n`,
  });
  expect(await readFile(join(project, "src/b"), "utf8")).toBe("b\n");
  await expect(stat(join(project, "gone"))).rejects.toThrow();
  const lost = await cli.run([
    "run",
    "--name",
    "lost",
    "-v",
    `${project}:/tmp/work`,
    "--sync",
    "--",
    "rm",
    "-r",
    "/tmp/work",
  ]);
  expect(lost).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/Cannot bring back .+\nhint: the sandbox "lost" stays/),
  });
  expect(await readFile(join(project, "src/b"), "utf8")).toBe("b\n");
  expect((await cli.run(["rm", "-f", "lost"])).stdout).toBe("lost\n");
  expect((await cli.run(["run", "-v", "/none", "--", "true"])).stderr).toMatch(/"\/none" is not a directory/);
});

test("what is changed here while the program runs stays, and the sandbox with the program's changes of the same file", async () => {
  const project = join(folder, "edited");
  await mkdir(project);
  for (const name of ["both", "here"]) {
    await writeFile(join(project, name), "before\n");
    await utimes(join(project, name), 1e9, 1e9);
  }
  const [printed, program] = [join(folder, "printed"), "echo ready; read -r line; echo inside > both; touch new"];
  const edits = `until grep -q ready ${printed}; do sleep 0.05; done; echo mine | tee ${project}/both ${project}/here`;
  const run = `"$0" run --name edited -i -v ${project}:/work --sync -- sh -c '${program}'`;
  const stays = 'Not all changes were brought back. The sandbox "edited" stays until its time is over';
  expect((await cli.shell(`touch ${printed}; { ${edits}; } | ${run} > ${printed}`)).stderr).toBe(
    [
      `sandkeep: Brought back to "${project}": 1 written, 0 removed`,
      'sandkeep: Left "both" as it is: it was changed here, too',
      `sandkeep: ${stays}`,
      "sandkeep: sandkeep cp edited:/work . copies from it, and sandkeep rm -f edited deletes it",
      "",
    ].join("\n"),
  );
  expect((await readdir(project)).sort()).toEqual(["both", "here", "new"]);
  for (const name of ["both", "here"]) expect(await readFile(join(project, name), "utf8")).toBe("mine\n");
  expect((await cli.run(["exec", "edited", "cat", "/work/both"])).stdout).toBe("inside\n");
  expect((await cli.run(["rm", "-f", "edited"])).stdout).toBe("edited\n");
});

test("a sparse file does not fill the disk; a signal deletes what came back of it, and keeps the sandbox", async () => {
  const [project, staging] = [join(folder, "sparse"), join(folder, "staging")];
  for (const path of [project, staging]) await mkdir(path);
  const run = (size: string) =>
    `TMPDIR=${staging} "$0" run --name sparse -v ${project}:/work --sync -- truncate -s ${size} big`;
  expect(await cli.shell(run("100T"))).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/Cannot write "big": it has 110 TB, and .+ free\nhint: the sandbox "sparse" stays/),
  });
  expect(await readdir(staging)).toEqual([]);
  expect((await cli.run(["rm", "-f", "sparse"])).stdout).toBe("sparse\n");
  const begun = `until [ -e ${staging}/*/big ]; do sleep 0.01; done`;
  const ended = await cli.shell(`${run("4G")} & ${begun}; kill -TERM $!; wait $!; echo $?`);
  const stays = 'Not all changes were brought back. The sandbox "sparse" stays until its time is over';
  const how = "sandkeep cp sparse:/work . copies from it, and sandkeep rm -f sparse deletes it";
  expect(ended).toEqual({ code: 0, stdout: "143\n", stderr: `sandkeep: ${stays}\nsandkeep: ${how}\n` });
  expect(await readdir(staging)).toEqual([]);
  expect(await readdir(project)).toEqual([]);
  expect((await cli.run(["exec", "sparse", "--", "stat", "-c", "%s", "/work/big"])).stdout).toBe(`${4 * 2 ** 30}\n`);
  expect((await cli.run(["rm", "-f", "sparse"])).stdout).toBe("sparse\n");
  expect(await cli.shell(run("64M"))).toMatchObject({ code: 0 });
  const { size, blocks } = await stat(join(project, "big"));
  expect([size, blocks]).toEqual([64 << 20, 0]);
});

test("a sandbox is kept, forked and brought back", async () => {
  await inside("echo before > state");
  const id = (await cli.run(["snapshot", "create", "demo", "--name", "good"])).stdout.trim();
  expect((await cli.run(["diff", "demo"])).stdout).toBe("");
  await inside("echo after, longer > state; touch new");
  expect((await cli.run(["diff", "demo"])).stdout).toMatch(/^(M {2}\/.+\n)*A {2}\/.+\/new\nM {2}\/.+\/state\n$/);
  expect(await cli.json(["diff", "demo", "good"])).toContainEqual(expect.objectContaining({ change: "added" }));
  expect((await cli.run(["diff", "demo", "good", "good"])).stdout).toBe("");
  expect((await cli.run(["diff", "demo", "none"])).stderr).toMatch(/^sandkeep: Cannot compare "demo": .+\nhint: /);
  expect((await cli.run(["fork", "demo", "copy"])).stdout).toBe("copy\n");
  expect((await cli.run(["exec", "copy", "cat", "state"])).stdout).toBe("after, longer\n");
  const kept = (await cli.run(["snapshot", "ls", "demo"])).stdout.split("\n").length;
  expect((await cli.run(["fork", "demo", "copy"])).stderr).toMatch(/^sandkeep: Cannot fork "demo": .+ already exists/);
  expect((await cli.run(["snapshot", "ls", "demo"])).stdout.split("\n")).toHaveLength(kept);
  expect((await cli.run(["restore", "demo", "good"])).stdout).toBe("demo\n");
  expect(await inside("cat state")).toBe("before\n");
  expect((await cli.run(["snapshot", "ls", "demo"])).stdout).toMatch(
    new RegExp(`^ID +NAME +SANDBOX +MADE +SIZE +AGE\\n(.+\\n)*${id} +good +demo +manual `),
  );
  expect(await cli.run(["restore", "demo", "bad"])).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^sandkeep: Cannot restore "demo": .+\nhint: sandkeep snapshot ls lists/),
  });
  expect((await cli.run(["rm", "-f", "--snapshots", "copy"])).stdout).toBe("copy\n");
});

test("ports get an address, and lose it", async () => {
  const opened = await cli.run(["port", "demo", "3000"]);
  expect(opened.stdout).toMatch(/^PORT +ADDRESS\n3000 +http:\/\/\S+\n$/);
  expect(await cli.json(["port", "demo"])).toMatchObject([{ port: 3000 }]);
  expect((await cli.run(["port", "demo", "3000", "--close"])).code).toBe(0);
  expect((await cli.json(["port", "demo"])).filter(({ url }: { url: string | null }) => url !== null)).toEqual([]);
});

test("events are listed, and followed", async () => {
  const { stdout } = await cli.run(["events", "--topics", "sandbox"]);
  expect(stdout).toMatch(/^[\d-]+ [\d:.]+ {2}sandbox\.created +sandbox=demo\n/);
  const following = cli.onTerminal(["events", "-f", "--topics", "command"]);
  await inside("exit 3");
  await following.until(/command\.ended .*exitCode=3/);
});
