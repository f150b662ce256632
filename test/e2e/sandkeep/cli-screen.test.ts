/** What a user sees of `sandkeep` on the screen of a terminal: tables that are drawn again, bars, editors, completion. */

import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { dirname } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from "vitest";
import { daemonOfFile, startDaemon } from "../../harness/daemon.ts";
import { eventually } from "../../harness/harness.ts";
import { tarOf } from "../../harness/images/image-archives.ts";
import { TestRegistry } from "../../harness/images/test-registry.ts";
import { sandkeepCommand } from "../../harness/package.ts";
import { needs } from "../../runner/needs.ts";
import { Cli } from "./cli.ts";

const daemon = daemonOfFile();
const cli = new Cli(daemon);
beforeEach((context) => needs(context, "root", "the command tmux", "the command vim.tiny", "the command busybox"));
const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());

beforeAll(async () => {
  for (const name of ["first", "second"])
    expect((await cli.run(["run", "--keep", "--timeout", "30m", "--name", name, "--", "true"])).code).toBe(0);
});

test("top draws its table in place, and at once in the terminal's new size, until q", async () => {
  const screen = await cli.onScreen('echo before; "$0" top --every 1h; echo "ended with $?"', { columns: 100 });
  const shown = await screen.until(/^SANDBOX +CPU +MEMORY +DISK +PROCESSES\n(first|second) .*\n(first|second) .* \d+$/);
  expect(shown).not.toContain("before");
  await screen.resize(24, 30);
  await screen.until(/^SANDB… +CPU +MEMORY +DISK\n(first|second) .*\n(first|second) .*$/);
  for (const line of (await screen.text()).split("\n")) expect(line.length).toBeLessThanOrEqual(30);
  await screen.resize(3, 100);
  await screen.until(/^SANDBOX .* PROCESSES\n2 more$/);
  await screen.resize(24, 100);
  await screen.until(/PROCESSES\n(first|second) .*\n(first|second) /);
  await screen.press("q");
  // What was there before comes back, and the terminal is as it was.
  await screen.until(/^before\nended with 0/);
  expect(await screen.ended()).toBe(0);
});

test("top follows what changes, and ends with Ctrl-C", async () => {
  const screen = await cli.onScreen('"$0" top --every 200ms; stty -a | grep -o " -\\?echo "; echo "ended with $?"');
  await screen.until(/first/);
  expect((await cli.run(["run", "--keep", "--name", "third", "--", "true"])).code).toBe(0);
  await screen.until(/third/);
  expect((await cli.run(["rm", "-f", "third"])).code).toBe(0);
  await eventually("the third is gone", async () => !(await screen.text()).includes("third"));
  await screen.press("C-c");
  await screen.until(/^ echo\s+ended with 0/);
});

test("an editor draws on the whole screen, also of another size, and leaves nothing behind", async () => {
  const screen = await cli.onScreen('echo before; "$0" run -it -- vim.tiny -u NONE -i NONE text; echo "ended with $?"');
  await screen.until(/^\s*\n(~\n){10,}(.|\n)*"text" \[New/);
  await screen.type("ihello");
  await screen.until(/^hello\n~/);
  await screen.resize(12, 40);
  await screen.until(/^hello\n(~\n){9}~$/);
  await screen.press("Escape");
  await screen.type(":q!\r");
  await screen.until(/^before\nended with 0/);
});

test("Ctrl-C ends the program and its sandbox", async () => {
  const screen = await cli.onScreen('"$0" run --name brief -- sh -c "echo ready; sleep 1000"; echo "ended with $?"');
  await screen.until(/ready/);
  await screen.press("C-c");
  await screen.until(/ended with 130/);
  expect(await screen.ended()).toBe(0);
  expect((await cli.run(["ls", "-q"])).stdout.split("\n")).not.toContain("brief");
});

test("Tab completes commands and names in bash", async () => {
  const start = `PATH=${dirname(sandkeepCommand())}:$PATH PS1='> ' exec bash --norc --noprofile -i`;
  const screen = await cli.onScreen(start);
  await screen.until(/^> $|^>$/);
  await screen.type("source <(sandkeep completion bash)\r");
  await screen.until(/\n>$/);
  await screen.type("sandkeep exe\t");
  await screen.until(/> sandkeep exec$/);
  await screen.type("sec\t");
  await screen.until(/> sandkeep exec second$/);
  await screen.type("\x15sandkeep drive \t\t");
  await screen.until(/\ncreate +fork +ls +resize +rm/);
  await screen.press("C-c");
});

test("a pull that run waits for shows a bar, elsewhere lines, and a second Ctrl-C gives up", async () => {
  const registry = await slowRegistry();
  const own = new AsyncDisposableStack();
  onTestFinished(() => own.disposeAsync());
  const settings = { SANDKEEP_REGISTRIES: registry.host, SANDKEEP_REGISTRY_HTTP: registry.host };
  const puller = await startDaemon(own, settings);
  const user = new Cli(() => puller);
  const image = `${registry.host}/team/app:1`;

  const given = await user.onScreen(`"$0" run ${image} -- /busybox echo hello; echo "ended with $?"`, { columns: 90 });
  await given.until(/Pulling .*\/team\/app:1 \[#+ +\] [4-6]\d % of \d/);
  await given.press("C-c");
  await given.until(/a second Ctrl-C does not wait/);
  await given.press("C-c");
  await given.until(/ended with 130/);
  expect(await given.text()).not.toContain("Pulling");

  const screen = await user.onScreen(`"$0" run ${image} -- /busybox echo hello; echo "ended with $?"`, { columns: 90 });
  const piped = user.run(["run", "-v", dirname(import.meta.filename), image, "--", "/busybox", "echo", "hello"]);
  await screen.until(/Pulling .*\/team\/app:1 \[#+ +\] [4-6]\d % of \d/);
  registry.release();
  await screen.until(/^hello\nended with 0/);
  const { code, stdout, stderr } = await piped;
  expect([code, stdout]).toEqual([0, "hello\n"]);
  expect(stderr).toMatch(/^sandkeep: Pulling \S+\/team\/app:1: \d+ % of 4\.\d MB\n/);
  expect((await user.run(["ls", "-q"])).stdout).toBe("");
});

test("open starts the desktop's browser with the link, and without one prints it", async () => {
  const desktop = 'DISPLAY=:0 BROWSER="$PWD/browser"';
  const browser = `cd "$(mktemp -d)"; printf '#!/bin/sh\\necho "opened $1" > got\\n' > browser; chmod +x browser`;
  const shown = '"$0" open; cat got; "$0" open --print; BROWSER=/none "$0" open; rm -r "$PWD"';
  const screen = await cli.onScreen(`${browser}; export ${desktop}; ${shown}; echo "ended with $?"`, { columns: 200 });
  const text = await screen.until(/ended with 0/);
  const link = `${daemon().url}/ui/\\S+`.replaceAll(".", "\\.");
  expect(text).toMatch(
    new RegExp(
      `^opened ${link}\\n${link}\\nsandkeep: Cannot start /none: there is no such program; open this link yourself:\\n${link}\\n`,
    ),
  );
});

/** a registry that sends half of its image's layer, and the rest after release() */
async function slowRegistry() {
  const registry = await new TestRegistry().listen();
  const files = [
    { name: "busybox", content: await readFile("/bin/busybox"), mode: 0o755 },
    { name: "noise", content: randomBytes(3_500_000) },
  ];
  const { layers } = registry.image("1", [await tarOf(files)]);
  const [layer] = layers;
  const blob = registry.blobs.get(layer?.digest ?? "") ?? Buffer.alloc(0);
  const waiting: ServerResponse[] = [];
  let isReleased = false;
  registry.before = ({ url = "", headers }, response) => {
    if (isReleased || headers.range !== undefined || !url.endsWith(layer?.digest ?? "none")) return false;
    response.writeHead(200, { "content-length": blob.length });
    response.write(blob.subarray(0, Math.ceil(blob.length * 0.55)));
    waiting.push(response);
    return true;
  };
  return {
    host: registry.host,
    release() {
      isReleased = true;
      for (const response of waiting) response.end(blob.subarray(Math.ceil(blob.length * 0.55)));
    },
  };
}
