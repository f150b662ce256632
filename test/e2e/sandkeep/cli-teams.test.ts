/** Drives, teams, quotas, loads, contexts and completion on the command line, against one daemon. */

import { dirname } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { tempDir } from "../../harness/harness.ts";
import { sandkeepCommand } from "../../harness/package.ts";
import { needs } from "../../runner/needs.ts";
import { Cli } from "./cli.ts";

const daemon = daemonOfFile();
const cli = new Cli(daemon);
beforeEach((context) => needs(context, "the command python3"));
const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());
let home = "";
beforeAll(async () => {
  home = await tempDir(undo);
});

test("a drive is made, mounted, resized, copied and deleted", async () => {
  expect((await cli.run(["drive", "create", "cache", "--size", "64m"])).stdout).toBe("cache\n");
  expect(await cli.run(["drive", "create", "cache", "--size", "64m"])).toMatchObject({ code: 0, stderr: "" });
  expect(await cli.run(["drive", "create", "cache", "--size", "1g"])).toEqual({
    code: 0,
    stdout: "cache\n",
    stderr:
      'sandkeep: The drive "cache" exists already and has 64 MiB; sandkeep drive resize cache --size changes that\n',
  });
  expect(await cli.run(["run", "--drive", "cache:/cache", "--", "sh", "-c", "echo kept > /cache/file"])).toMatchObject({
    code: 0,
  });
  expect((await cli.run(["drive", "fork", "cache", "other"])).stdout).toBe("other\n");
  expect((await cli.run(["run", "--drive", "other:/x", "--", "cat", "/x/file"])).stdout).toBe("kept\n");
  expect(await cli.json(["drive", "resize", "cache", "--size", "128m"])).toMatchObject({ maxSize: 128 * 2 ** 20 });
  expect((await cli.run(["drive", "ls"])).stdout).toMatch(/^NAME +SIZE +SANDBOX +AGE\nother .*\ncache +128 MiB +- /);
  expect((await cli.run(["drive", "ls", "--size", "1g"])).stderr).toMatch(
    /^sandkeep: Cannot use --size with "drive ls"/,
  );
  expect((await cli.run(["drive", "rm", "cache"])).stdout).toBe("cache\n");
  expect((await cli.run(["drive", "rm", "cache"])).stderr).toMatch(/^sandkeep: Cannot delete the drive "cache": /);
  expect((await cli.run(["run", "--drive", "cache", "--", "true"])).stderr).toMatch(/^sandkeep: Cannot use --drive /);
});

test("an admin makes a team and limits it", async () => {
  expect((await cli.run(["team", "create", "ml"])).stdout).toBe("ml\n");
  expect(await cli.run(["team", "create", "ml"])).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^sandkeep: Cannot make the team "ml": There is a team "ml" already\n/),
  });
  expect((await cli.json(["team", "ls"])).map(({ slug }: { slug: string }) => slug)).toContain("ml");
  const limited = ["--sandboxes", "0", "--memory", "2g", "--creates", "9", "--disk", "10g"];
  const set = await cli.run(["quota", "set", "--team", "ml", ...limited]);
  expect(set.stdout).toMatch(
    /^WHAT +USED +LIMIT\nsandboxes +0 +0\ncpus +0 +none\nmemory +0 MiB +2 GiB\ncreates a minute +0 +9\ndisk +0 MiB +10 GiB\ndisk of images +0 MiB +none\n$/,
  );
  expect((await cli.run(["team", "rm"])).stderr).toMatch(/^sandkeep: Cannot do "team rm": create and rm take one name/);
  const refused = await cli.run(["run", "--team", "ml", "--", "true"]);
  expect(refused).toMatchObject({ code: 1, stderr: expect.stringMatching(/^sandkeep: Cannot run "true": /) });
  const { limits } = await cli.json(["quota", "--team", "ml"]);
  expect(limits).toEqual({
    sandboxes: 0,
    vcpus: null,
    memory: 2048,
    createsPerMinute: 9,
    disk: 10_240,
    imageDisk: null,
  });
  expect((await cli.run(["quota", "--cpus", "3"])).stderr).toMatch(/hint: write sandkeep quota set/);
  const made = await cli.json(["key", "create", "ci", "--team", "ml"]);
  expect(await cli.json(["key", "ls", "--team", "ml"])).toMatchObject([{ id: made.id, name: "ci" }]);
  expect(JSON.stringify(await cli.json(["key", "ls"]))).not.toContain(made.id);
  expect((await cli.run(["key", "rename", made.id, "robot", "--team", "ml"])).stdout).toBe("robot\n");
  const ofKey = await cli.run(["quota", "set", "--team", "ml", "--key", made.id, "--sandboxes", "1"]);
  expect(ofKey.stdout).toMatch(/^WHAT +USED +LIMIT\nsandboxes +0 +1\n(?!.*images)/s);
  expect((await cli.json(["quota", "--team", "ml", "--key", made.id])).limits).toMatchObject({
    sandboxes: 1,
    vcpus: null,
  });
  expect((await cli.run(["quota", "set", "--key", made.id, "--image-disk", "1g"])).stderr).toMatch(/images belong to/);
  expect((await cli.run(["key", "rm", made.id, "--team", "ml"])).stdout).toBe(`${made.id}\n`);
  expect((await cli.run(["quota", "set", "--team", "ml", "--memory", "2g"])).code).toBe(0);
  const kept = ["run", "--keep", "--name", "theirs", "--team", "ml", "--memory", "512m", "--", "true"];
  expect((await cli.run(kept)).code).toBe(0);
  expect((await cli.run(["egress", "theirs"])).stderr).toMatch(/^sandkeep: Cannot show the egress log: .+ not found/);
  expect((await cli.run(["egress", "theirs", "--team", "ml"])).stdout).toMatch(/^TIME +VERDICT +WHERE /);
  expect(JSON.parse((await cli.run(["egress", "theirs", "--team", "ml", "--suggest"])).stdout)).toEqual({ allow: [] });
  expect((await cli.run(["stop", "theirs", "--team", "ml"])).code).toBe(0);
  expect((await cli.run(["egress", "-f", "theirs", "--team", "ml"])).code).toBe(0);
  expect((await cli.run(["drive", "create", "held", "--size", "64m", "--team", "ml"])).code).toBe(0);
  expect((await cli.run(["team", "rm", "ml"])).stderr).toMatch(
    /^sandkeep: Cannot delete team "ml": .+\nhint: sandkeep team rm --force ml deletes them, too\n$/,
  );
  expect(await cli.run(["team", "rm", "-f", "ml"])).toEqual({ code: 0, stdout: "ml\n", stderr: "" });
  expect((await cli.json(["team", "ls"])).map(({ slug }: { slug: string }) => slug)).not.toContain("ml");
});

test("an admin key makes another one, and a key for a project that was made before", async () => {
  const { id, admin } = await cli.json(["key", "create", "second", "--admin"]);
  expect(admin).toBe(true);
  expect((await cli.run(["key", "ls"])).stdout).toMatch(
    new RegExp(`^${id} +second .* no limits, for every team$`, "m"),
  );
  expect((await cli.run(["key", "rm", id, "--admin"])).stderr).toMatch(/^sandkeep: Cannot use --admin with "key rm"/);
  expect((await cli.run(["key", "rm", id])).code).toBe(0);
  expect((await cli.run(["project", "create", "web"])).stdout).toBe("web\n");
  expect((await cli.run(["project", "create", "web"])).stderr).toMatch(/^sandkeep: Cannot create the project "web": /);
  expect((await cli.run(["project", "ls"])).stdout).toMatch(/^NAME +ID +CREATED\ndefault +prj_default .*\nweb +prj_/);
  const { projectId } = await cli.json(["key", "create", "of-web", "--project", "web"]);
  expect((await cli.json(["project", "ls"])).map((each: { id: string }) => each.id)).toContain(projectId);
});

test("the audit lists who changed what, also what was refused", async () => {
  const { stdout } = await cli.run(["audit"]);
  expect(stdout).toMatch(/^TIME +ACTION +TARGET +OUTCOME +API +KEY\n/);
  expect(stdout).toMatch(/drive\.\w+ +cache +done +sandkeep +key_/);
  const [last] = await cli.json(["audit", "--limit", "1", "--all-teams"]);
  expect(last).toMatchObject({ action: expect.any(String), wire: "sandkeep" });
  const drives = await cli.json([
    "audit",
    "--action",
    "drive",
    "--target",
    "cache",
    "--since",
    "1h",
    "--outcome",
    "done",
  ]);
  expect(drives.length).toBeGreaterThan(0);
  for (const each of drives)
    expect(each).toMatchObject({ action: expect.stringMatching(/^drive\./), target: "cache", outcome: "done" });
  expect(await cli.json(["audit", "--key", drives[0].keyId, "--action", "key.delete", "--target", "none"])).toEqual([]);
  expect((await cli.run(["audit", "--action", "driv"])).stderr).toContain('Cannot list actions on "driv"');
  expect((await cli.run(["audit", "--outcome", "perhaps"])).stderr).toContain("outcome");
  expect((await cli.run(["audit", "demo"])).stderr).toMatch(/^sandkeep: Cannot list the audit: it takes no name/);
});

test("top shows the load of running sandboxes, and on a terminal until Ctrl-C", async () => {
  expect((await cli.run(["run", "--keep", "--name", "busy", "--", "true"])).code).toBe(0);
  expect((await cli.run(["top"])).stdout).toMatch(
    /^SANDBOX +CPU +MEMORY +DISK +PROCESSES\nbusy +\d+% of [\d.]+ +\d+ MiB of \S+ GiB +.+ +\d+\n$/,
  );
  expect((await cli.run(["run", "--name", "busy", "--", "true"])).stderr).toMatch(/hint: sandkeep exec busy runs /);
  expect((await cli.run(["egress", "bussy"])).stderr).toMatch(/hint: Did you mean "busy"\?/);
  expect((await cli.run(["snapshot", "ls", "bussy"])).stderr).toMatch(/hint: Did you mean "busy"\?/);
  expect((await cli.run(["snapshot", "ls", "--name", "x"])).stderr).toMatch(/Cannot use --name with "snapshot ls"/);
  for (const name of ["one", "two", "two"]) await cli.run(["snapshot", "create", "busy", "--name", name]);
  expect(await cli.run(["snapshot", "rm", "one"])).toEqual({ code: 0, stdout: "one\n", stderr: "" });
  expect((await cli.run(["snapshot", "rm", "two"])).stderr).toMatch(/: several have this name\n/);
  expect((await cli.run(["key", "rm", "key_none"])).stderr).toBe(
    'sandkeep: Cannot delete key "key_none": there is no such key\n',
  );
  const [{ session: before }] = await cli.json(["ls"]);
  const extended = await cli.run(["extend", "busy", "30m"]);
  expect(extended).toMatchObject({
    code: 0,
    stdout: "busy\n",
    stderr: expect.stringMatching(/^sandkeep: It ends in 3\dm\n$/),
  });
  const [{ session: after }] = await cli.json(["ls"]);
  expect(after.expiresAt - before.expiresAt).toBe(30 * 60_000);
  expect((await cli.run(["extend", "bussy", "30m"])).stderr).toMatch(/hint: Did you mean "busy"\?/);
  expect((await cli.run(["extend", "busy", "soon"])).stderr).toMatch(/^sandkeep: Cannot use the duration "soon"/);
  const live = cli.onTerminal(["top", "--every", "200ms"]);
  await live.until(/busy/);
  await live.until(/busy/);
  live.type("\x03");
  expect(await live.ended, live.output).toBe(0);
});

test("a context stands for a daemon, and a variable comes before it", async () => {
  const { url, key } = daemon();
  const nowhere = { SANDKEEP_URL: "", SANDKEEP_API_KEY: "", SANDKEEP_DATA_DIR: "", XDG_CONFIG_HOME: home };
  const plain = new Cli(daemon, nowhere);
  expect(await plain.run(["context", "create", "test", "--url", url], `${key}\n`)).toMatchObject({ code: 0 });
  expect(await plain.run(["context", "create", "bad", "--url", url], "sk_wrong\n")).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /^sandkeep: Cannot make the context "bad": .* does not accept this key\nhint: sandkeep key create /,
    ),
  });
  expect((await plain.run(["context", "use", "tset"])).stderr).toMatch(/hint: Did you mean "test"\?/);
  expect((await plain.run(["context", "use", "test"])).stdout).toBe("test\n");
  const listed = await plain.run(["context", "ls"]);
  expect(listed.stdout).toMatch(/^ +NAME +ADDRESS\n +default +this host\n\* +test +http:/);
  expect(listed.stdout).not.toContain(key);
  expect((await plain.run(["ls", "-q"])).stdout).toBe("busy\n");
  expect((await plain.run(["key", "ls"])).code).toBe(0);
  const elsewhere = new Cli(daemon, { ...nowhere, SANDKEEP_URL: "http://127.0.0.1:9", SANDKEEP_API_KEY: "sk_x" });
  expect((await elsewhere.run(["ls"])).stderr).toMatch(
    /^sandkeep: Cannot reach the daemon at "http:\/\/127\.0\.0\.1:9"/,
  );
  expect((await plain.run(["context", "rm", "test"])).code).toBe(0);
  expect(await plain.json(["context", "ls"])).toEqual([{ name: "default", url: "", current: true }]);
});

test("bash completes commands, options, verbs and names", async () => {
  const complete = async (...words: string[]) => {
    const script = `PATH=${dirname(sandkeepCommand())}:$PATH; source <("$0" completion bash)
      COMP_WORDS=(sandkeep ${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length}; _sandkeep
      printf '%s\\n' "\${COMPREPLY[@]}"`;
    return (await cli.shell(script)).stdout.trim().split("\n");
  };
  expect(await complete("sh")).toEqual(["shell"]);
  expect(await complete("exec", "b")).toEqual(["busy"]);
  expect(await complete("run", "--me")).toEqual(["--memory"]);
  expect(await complete("drive", "")).toEqual(["create", "fork", "ls", "resize", "rm"]);
});

test("fish completes them", async (context) => {
  needs(context, "the command fish");
  const complete = async (line: string) => {
    const script = `HOME=${home} PATH=${dirname(sandkeepCommand())}:$PATH fish -N -c '"$0" completion fish | source; complete -C "${line}"'`;
    return (await cli.shell(script.replace('"$0"', sandkeepCommand()))).stdout.trim().split("\n");
  };
  expect(await complete("sandkeep she")).toContain("shell");
  expect(await complete("sandkeep exec bu")).toContain("busy");
  expect(await complete("sandkeep run --me")).toContain("--memory");
});

test("zsh completes them on a terminal, also if nothing has set its completion up", async (context) => {
  needs(context, "the command zsh");
  const shell = cli.onTerminalOf(["zsh", "-f", "-i"]);
  shell.type(
    `HOME=${home} PATH=${dirname(sandkeepCommand())}:$PATH; bindkey -e; source <(sandkeep completion zsh); echo re''ady\n`,
  );
  await shell.until(/ready/);
  // Ctrl-A and Ctrl-E go to the ends of the line, which is printed as it was completed. zsh takes its blank after the
  // word back when another sign follows.
  for (const [typed, completed] of [
    ["sandkeep sh", "sandkeep shell"],
    ["sandkeep exec b", "sandkeep exec busy"],
    ["sandkeep run --me", "sandkeep run --memory"],
  ]) {
    shell.type(`${typed}\t\x01echo "<\x05>"\n`);
    await shell.until(new RegExp(`\n<${completed}>`));
  }
  shell.type("exit\n");
  await shell.ended;
});
