/** The commands on sandboxes, against one daemon: with pipes, and on a real terminal. */

import { createHash } from "node:crypto";
import { beforeEach, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { needs } from "../../runner/needs.ts";
import { Cli } from "./cli.ts";

const daemon = daemonOfFile();
const cli = new Cli(daemon);
beforeEach((context) => needs(context, "the command python3"));

test("run shows both streams, returns the program's exit code and deletes the sandbox", async () => {
  const script = "echo out $WORD; echo err >&2; cat; nproc; exit 7";
  const settings = ["-e", "WORD=hello", "--cpus", "1", "--memory", "256m", "--timeout", "60s", "--name", "once"];
  const ran = await cli.run(["run", "-i", ...settings, "-p", "3000", "--", "sh", "-c", script], "typed\n");
  expect(ran).toMatchObject({ code: 7, stdout: "out hello\ntyped\n1\n" });
  expect(ran.stderr).toMatch(/^sandkeep: Port 3000 is at http\S+\n(?:.*\n)*err\n$/);
  expect(await cli.json(["ls"])).toEqual([]);
  const lines = (await cli.run(["run", "--json", "--", "echo", "hi"])).stdout.trim().split("\n");
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([{ stream: "stdout", data: "hi\n" }, { exitCode: 0 }]);
});

test("run passes any bytes through, and ends with the reader of its output", async () => {
  const bytes = Buffer.alloc(300_000, Buffer.from([0, 255, 128, 10, 65]));
  const sum = await cli.run(["run", "-i", "--", "sha256sum"], bytes);
  expect(sum).toMatchObject({ code: 0, stdout: `${createHash("sha256").update(bytes).digest("hex")}  -\n` });
  const cut = await cli.shell('set -o pipefail; "$0" run -- yes | head -n 2; echo $?');
  expect(cut).toEqual({ code: 0, stdout: "y\ny\n141\n", stderr: "" });
  const full = await cli.shell(
    '"$0" run -- echo hi > /dev/full; echo $?; "$0" run -- sh -c "echo hi; exit 3" > /dev/full',
  );
  expect(full).toEqual({
    code: 3,
    stdout: "1\n",
    stderr: expect.stringMatching(/^(sandkeep: Cannot write the output: ENOSPC: .+\n){2}$/),
  });
  expect(await cli.json(["ls"])).toEqual([]);
});

test("run -it opens a shell on this terminal, with its size", async () => {
  const shell = cli.onTerminal(["run", "-it"]);
  await shell.until(/[$#] /);
  shell.type("stty size; echo $TERM\n");
  await shell.until(/24 80\s+xterm-256color/);
  shell.resize(40, 100);
  shell.type("until stty size | grep '40 100'; do :; done; exit 5\n");
  await shell.until(/[^']40 100/);
  expect(await shell.ended, shell.output).toBe(5);
  expect(await cli.json(["ls"])).toEqual([]);
});

test("Ctrl-C goes to the program, and the second one ends it with its sandbox", async () => {
  const caught = "trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.05; done";
  const polite = cli.onTerminal(["run", "--", "sh", "-c", caught]);
  await polite.until(/ready/);
  polite.type("\x03");
  await polite.until(/caught/);
  expect(await polite.ended, polite.output).toBe(3);
  const ignored = "trap 'echo ignored' INT; echo ready; while :; do sleep 0.05; done";
  const deaf = cli.onTerminal(["run", "--", "sh", "-c", ignored]);
  await deaf.until(/ready/);
  deaf.type("\x03");
  await deaf.until(/ignored/);
  deaf.type("\x03");
  expect(await deaf.ended, deaf.output).toBe(130);
  expect(deaf.output).toContain("Gave up waiting for the program: it ends with its sandbox, which is deleted");
  expect(await cli.json(["ls"])).toEqual([]);
});

test("a run that is killed deletes its sandbox, and gives the terminal back", async () => {
  for (const [signal, code] of [
    ["TERM", 143],
    ["HUP", 129],
  ] as const) {
    const killed = await cli.shell(`"$0" run -- sleep 1000 & until "$0" ps | grep -q sleep; do :; done
      kill -${signal} $!; wait $!; echo $?`);
    expect(killed).toMatchObject({ code: 0, stdout: `${code}\n` });
  }
  // The shell inside ignores SIGTERM. The program here shows whether the terminal echoes again.
  const script = `sh -c 'echo "pid $$"; exec "$0" run -it' "$0"; echo "code $?"; stty -a`;
  const outer = cli.onTerminalOf(["bash", "-c", script]);
  await outer.until(/[$#] /);
  process.kill(Number(/pid (\d+)/.exec(outer.output)?.[1]), "SIGTERM");
  await outer.until(/code 143.* echo /s);
  await outer.ended;
  expect(await cli.json(["ls"])).toEqual([]);
});

test("a kept sandbox is listed, used, stopped and deleted by its name", async () => {
  expect((await cli.run(["run", "--keep", "--name", "kept", "--", "sh", "-c", "echo one > file"])).code).toBe(0);
  expect((await cli.run(["ls"])).stdout).toMatch(/^NAME +STATE +IMAGE.* ENDS IN +PORTS\nkept +running .* \d+[ms] +/);
  expect((await cli.run(["ls", "-q"])).stdout).toBe("kept\n");
  const ran = await cli.run(["exec", "-e", "A=b", "kept", "sh", "-c", "cat file; echo $A; echo bad >&2; exit 4"]);
  expect(ran).toEqual({ code: 4, stdout: "one\nb\n", stderr: "bad\n" });
  const shell = cli.onTerminal(["shell", "kept"]);
  await shell.until(/[$#] /);
  const { stdout: programs } = await cli.run(["ps"]);
  expect(programs).toMatch(/^SANDBOX +ID +STATE +TIME +PROGRAM\nkept +cmd_\w+ +running +\d+s +sh -c /);
  shell.type("tty; exit 6\n");
  await shell.until(/\/dev\/pts\/\d/);
  expect(await shell.ended, shell.output).toBe(6);
  const [, second] = await cli.json(["ps", "-a", "kept"]);
  const logs = await cli.run(["logs", "kept", second.id.slice(0, 16)]);
  expect(logs).toEqual({ code: 0, stdout: "one\nb\n", stderr: "bad\n" });
  expect(await cli.run(["rm", "kept"])).toMatchObject({ code: 1, stderr: expect.stringContaining("rm -f kept") });
  expect((await cli.run(["stop", "kept"])).stdout).toBe("kept\n");
  // It is started again for this.
  expect((await cli.run(["exec", "kept", "--", "cat", "file"])).stdout).toBe("one\n");
  const table = cli.onTerminal(["ls"]);
  expect(await table.ended).toBe(0);
  expect(Math.max(...table.output.split("\r\n").map((line) => line.length))).toBeLessThanOrEqual(80);
  expect((await cli.run(["rm", "-f", "kept", "gone"])).stdout).toBe("kept\n");
});

test("logs -f shows the output until the program ends", async () => {
  expect((await cli.run(["run", "--keep", "--name", "talk", "--", "true"])).code).toBe(0);
  const talking = cli.onTerminal(["exec", "-it", "talk", "sh", "-c", "echo first; read x; echo got $x"]);
  await talking.until(/first/);
  const following = cli.onTerminal(["logs", "-f", "talk"]);
  await following.until(/first/);
  talking.type("word\n");
  await following.until(/got word/);
  expect([await talking.ended, await following.ended]).toEqual([0, 0]);
  expect((await cli.run(["rm", "-f", "--snapshots", "talk"])).code).toBe(0);
});

test("programs and terminals go on over a restart of the daemon, and no output is lost or repeated", async () => {
  const script = "echo one; until [ -e go ]; do sleep 0.05; done; echo two; exit 9";
  const running = cli.onTerminal(["run", "--keep", "--name", "long", "--", "sh", "-c", script]);
  await running.until(/one/);
  const typing = cli.onTerminal(["exec", "-it", "long", "sh", "-c", "echo three; read x; touch go; echo got $x"]);
  await typing.until(/three/);
  await daemon().kill9();
  await daemon().start();
  typing.type("word\n");
  expect(await typing.ended, typing.output).toBe(0);
  // Node's raw mode adds a second carriage return, which does not show.
  expect(typing.output.replaceAll("\r", "")).toBe("three\nword\ngot word\n");
  expect(await running.ended, running.output).toBe(9);
  expect(running.output).toMatch(
    /^sandkeep: The sandbox is "long"; it stays, and is stopped after 5m \(--timeout\)\r\none\r\ntwo\r\n$/,
  );
  expect((await cli.run(["rm", "-f", "--snapshots", "long"])).code).toBe(0);
});

test("errors are sentences with a hint, and name what was probably meant", async () => {
  expect((await cli.run(["run", "--keep", "--name", "spelled", "--", "true"])).code).toBe(0);
  const failures = [
    [["exec", "speled", "true"], /^sandkeep: Cannot run "true" in "speled": .+\nhint: Did you mean "spelled"\?\n$/],
    [["stop", "zzzzzz"], /^sandkeep: Cannot stop "zzzzzz": .+\nhint: sandkeep ls lists them\n$/],
    [["run", "none:1"], /^sandkeep: Cannot run the image's command: /],
    [["run", "none:1", "sh"], /^sandkeep: Cannot run "sh": /],
    [["run", "echo", "hi"], /^sandkeep: Cannot run "hi": .+ is not here.+\nhint: .+: sandkeep run -- echo hi\n$/],
    [["run", "--cpus", "9999", "--", "true"], /^sandkeep: Cannot run "true": Invalid request: --cpus should be <= \d+/],
    [["run", "--rm", "--", "true"], /^sandkeep: Unknown option '--rm'\nhint: run deletes its sandbox .+\n$/],
    [["shell", "spelled"], /^sandkeep: Cannot open a shell in "spelled": .+\nhint: sandkeep exec -i spelled sh .+\n$/],
    [["run", "-it"], /^sandkeep: Cannot use -t: .+\nhint: leave out -t/],
    [["run", "--memory", "lots", "--", "true"], /^sandkeep: Cannot use --memory "lots": it must be a size/],
    [["lss"], /^sandkeep: Cannot do "lss": there is no such command\nhint: Did you mean "ls"\?/],
    [["restart"], /^sandkeep: Cannot do "restart": there is no such command\nhint: sandkeep stop .+\n$/],
    [["ls", "--sate", "running"], /^sandkeep: Unknown option '--sate'\. Did you mean "--state"\?/],
    [["logs", "spelled", "cmd_zz"], /^sandkeep: Cannot show output of "spelled": it has no command "cmd_zz"\nhint: /],
  ] as const;
  for (const [args, words] of failures) {
    const ran = await cli.run([...args]);
    expect(ran, args.join(" ")).toMatchObject({ code: 1, stdout: "", stderr: expect.stringMatching(words) });
  }
  const missing = [
    [["run", "--", "no-such-program"], /^sandkeep: Cannot run "no-such-program": [^:]+\n$/],
    [
      ["exec", "spelled", "echo hi && pwd"],
      /^sandkeep: Cannot run "echo hi && pwd": .+\nhint: .+: sh -c 'echo hi && pwd'\n$/,
    ],
  ] as const;
  for (const [args, words] of missing)
    expect(await cli.run([...args]), args.join(" ")).toMatchObject({ code: 127, stderr: expect.stringMatching(words) });
  const late = await cli.run(["run", "--timeout", "1s", "--", "sleep", "1000"]);
  expect(late).toMatchObject({
    code: 137,
    stderr:
      "sandkeep: The program was ended: the sandbox's time of 1s was over; sandkeep run --timeout gives a sandbox more\n",
  });
  // A failed run leaves no sandbox behind.
  expect((await cli.run(["ls", "-q"])).stdout).toBe("spelled\n");
  expect((await cli.run(["rm", "-f", "spelled"])).code).toBe(0);
});
