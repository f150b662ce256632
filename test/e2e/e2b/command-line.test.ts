/** E2B's command line, unmodified, also on a terminal, with what `sandkeep env` prints. */

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { Sandbox, SandboxNotFoundError } from "e2b";
import { expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { eventually, root, tempDir } from "../../harness/harness.ts";
import { needs } from "../../runner/needs.ts";
import { cli, cliOnTerminal, program, useDaemon } from "./e2b.ts";

const daemon = daemonOfFile();
useDaemon(daemon);

test("the command line creates, lists, shows, pauses, resumes, snapshots and kills", async () => {
  const home = await tempDir();
  const run = async (...args: string[]) => {
    const { code, stdout, stderr } = await cli(daemon(), home, args);
    expect({ args, code, stderr }).toEqual({ args, code: 0, stderr: "" });
    return stdout;
  };
  const created = await run("sandbox", "create", "--detach");
  const id = /\bi[a-z0-9]{30,}/.exec(created)?.[0] ?? "";
  const listed = JSON.parse(await run("sandbox", "list", "--format", "json"));
  expect(listed).toMatchObject([{ sandboxId: id, state: "running" }]);
  expect(JSON.parse(await run("sandbox", "info", id, "--format", "json"))).toMatchObject({ sandboxId: id });
  expect(await run("sandbox", "logs", id)).toContain("Sandbox started");
  await eventually("a series", async () => (await run("sandbox", "metrics", id)).split("CPU").length > 3);
  expect(await run("sandbox", "exec", id, "echo", "from the command line")).toBe("from the command line\n");
  const piped = await cli(daemon(), home, ["sandbox", "exec", id, "sort"], "b\na\n");
  expect(piped).toMatchObject({ code: 0, stdout: "a\nb\n" });
  expect(await cli(daemon(), home, ["sandbox", "exec", id, "exit 3"])).toMatchObject({ code: 3 });
  expect(await run("sandbox", "snapshot", "create", id)).toContain("napshot");
  const [snapshot = ""] = /snap_\w+/.exec(await run("sandbox", "snapshot", "list", id)) ?? [];
  await run("sandbox", "snapshot", "delete", snapshot);
  expect(await run("sandbox", "snapshot", "list")).not.toContain(snapshot || "snap_");
  await run("sandbox", "pause", id);
  expect(await Sandbox.getInfo(id)).toMatchObject({ state: "paused" });
  await run("sandbox", "resume", id);
  expect(await Sandbox.getInfo(id)).toMatchObject({ state: "running" });
  expect(await run("sandbox", "kill", id)).toContain("has been killed");
  await expect(Sandbox.getInfo(id)).rejects.toThrow(SandboxNotFoundError);
});

test("the command line on a terminal: shells that follow, watch and end sandboxes", async (context) => {
  needs(context, "the command python3");
  const home = await tempDir();
  const on = (...args: string[]) => cliOnTerminal(daemon(), home, args);
  for (const word of ["create", "spawn"]) {
    const options = ["--timeout", "600", "--user", "root", "--cwd", "/srv", "--env", "GREETING=hello"];
    const shell = on("sandbox", word, ...options, "base");
    await shell.until(/\/srv/);
    shell.type("echo $GREETING-$(id -un)-$(stty size | tr ' ' x); exit\n");
    await shell.until(/hello-root-24x80/);
    expect(await shell.ended, shell.output).toBe(0);
  }
  const sandbox = await Sandbox.create({ lifecycle: { onTimeout: "pause" } });
  const { sandboxId: id } = sandbox;
  await sandbox.pause();
  const shell = on("sandbox", "connect", id);
  await shell.until(/user@|\$ /);
  shell.type("echo again-$((1+1)); exit 0\n");
  await shell.until(/again-2/);
  expect(await shell.ended, shell.output).toBe(0);
  const logs = on("sandbox", "logs", "--follow", id);
  await logs.until(/Sandbox started/);
  const metrics = on("sandbox", "metrics", "--follow", id);
  await metrics.until(/CPU/);
  const list = on("sandbox", "list");
  await list.until(new RegExp(id.slice(0, 8)));
  expect(await list.ended, list.output).toBe(0);
  const killed = on("sandbox", "kill", "--all", "--state", "running,paused");
  await killed.until(/Killed \d+ running sandboxes/);
  // Whichever it asks for first, the state or the next lines.
  await logs.until(/sandbox is closed|not found/);
  const gone = on("sandbox", "connect", id);
  expect(await gone.ended, gone.output).toBe(1);
  expect(gone.output).toMatch(/not found|404/i);
});

test("what sandkeep env prints is enough for both SDKs and the command line", async () => {
  const { url, key: apiKey } = daemon();
  const script = `
    import { Sandbox } from "e2b";
    import { Sandbox as Sandbox1 } from "e2b-1";
    for (const each of [Sandbox, Sandbox1]) {
      const sandbox = await each.create();
      const { stdout } = await sandbox.commands.run("id -un; pwd");
      await sandbox.kill();
      console.log(JSON.stringify(stdout));
    }`;
  const line = 'eval "$(bin/sandkeep env e2b)"; node --input-type=module -e "$1"; node "$2" sandbox list';
  const { stdout } = await promisify(execFile)("/bin/sh", ["-ec", line, "sh", script, program], {
    cwd: root,
    env: { PATH: process.env.PATH, HOME: await tempDir(), SANDKEEP_URL: url, SANDKEEP_API_KEY: apiKey },
  });
  const ran = JSON.stringify("user\n/home/user\n");
  expect(stdout).toContain(`${ran}\n${ran}\n`);
  expect(stdout).toContain("No sandboxes found");
});
