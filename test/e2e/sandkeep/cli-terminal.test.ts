/** Programs that use the whole terminal, through `sandkeep run -it` and `exec -it`, against one daemon. */

import { createHash, randomBytes } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { tempDir } from "../../harness/harness.ts";
import { needs } from "../../runner/needs.ts";
import { Cli } from "./cli.ts";

const daemon = daemonOfFile();
const cli = new Cli(daemon);
beforeEach((context) => needs(context, "the command python3", "the command vim.tiny", "the command less"));
const undo = new AsyncDisposableStack();
afterAll(() => undo.disposeAsync());
let folder = "";

beforeAll(async () => {
  folder = await tempDir(undo);
  expect(await cli.run(["run", "--keep", "--timeout", "30m", "--name", "demo", "--", "true"])).toMatchObject({
    code: 0,
  });
});

const inside = async (script: string) => (await cli.run(["exec", "demo", "--", "sh", "-c", script])).stdout;

test("an editor, a pager and a REPL work, and give the terminal back", async () => {
  const editor = cli.onTerminal(["exec", "-it", "demo", "vim.tiny", "-u", "NONE", "-i", "NONE", "text"]);
  await editor.until(/text.*\[New/s);
  editor.type("ihello w\xf6rld\x1b:wq\r");
  expect(await editor.ended, editor.output).toBe(0);
  expect(await inside("cat text")).toBe("hello w\xf6rld\n");
  const pager = cli.onTerminal(["exec", "-it", "demo", "sh", "-c", "seq 1000 | less"]);
  await pager.until(/23\r*\n/);
  pager.type("G");
  await pager.until(/1000/);
  pager.type("q");
  expect(await pager.ended, pager.output).toBe(0);
  const repl = cli.onTerminal(["run", "-it", "--", "python3", "-q"]);
  await repl.until(/>>> /);
  repl.type("while True: pass\n\n");
  await repl.until(/\.\.\. /);
  repl.type("\x03");
  await repl.until(/KeyboardInterrupt.*>>> /s);
  repl.type("6*7\n");
  // Between its answer and its next prompt the terminal is not raw, and gives Python a zero in place of a Ctrl-D.
  await repl.until(/42.*>>> /s);
  repl.type("\x04");
  expect(await repl.ended, repl.output).toBe(0);
});

test("20 MB go through exec unchanged in both directions", async () => {
  const bytes = randomBytes(20_000_000);
  await writeFile(join(folder, "in"), bytes);
  const ran = await cli.shell(`"$0" exec -i demo cat < ${folder}/in > ${folder}/out`);
  expect(ran).toEqual({ code: 0, stdout: "", stderr: "" });
  expect(bytes.equals(await readFile(join(folder, "out")))).toBe(true);
});

/** what an interactive agent does: the other screen, raw keys, its size, its colours, and pasted text as one piece */
const screen = `
import os, sys, tty, termios, signal
old = termios.tcgetattr(0); tty.setraw(0)
def say(text): os.write(1, text.encode())
def size(*_): say("\\x1b[Hsize %d %d\\x1b[K" % (os.get_terminal_size().columns, os.get_terminal_size().lines))
signal.signal(signal.SIGWINCH, size)
say("\\x1b[?1049h\\x1b[?2004h\\x1b[31mready\\x1b[0m"); size()
got = b""
while not got.endswith(b"q!"):
    try: got += os.read(0, 65536)
    except InterruptedError: pass
say("\\x1b[?2004l\\x1b[?1049l"); termios.tcsetattr(0, termios.TCSADRAIN, old)
import hashlib
print("got", len(got), hashlib.sha256(got).hexdigest())
`;

test("an agent's full-screen program gets every key, the size, and 100 kB that are pasted", async () => {
  await writeFile(join(folder, "screen.py"), screen);
  await cli.run(["cp", join(folder, "screen.py"), "demo:"]);
  const program = cli.onTerminal(["exec", "-it", "demo", "python3", "screen.py"]);
  await program.until(/ready.*size 80 24/s);
  program.resize(30, 100);
  await program.until(/size 100 30/);
  // Ctrl-C, Ctrl-Z, Escape and the keys of a mouse are only keys for it.
  const pasted = `\x03\x1a\x1b[A\x1b[<0;3;4M\x1b[200~${randomBytes(50_000).toString("hex")}\x1b[201~q!`;
  program.type(pasted);
  await program.until(/got \d+ \w{64}/);
  expect(program.output).toContain(`got ${pasted.length} ${createHash("sha256").update(pasted).digest("hex")}`);
  expect(await program.ended).toBe(0);
});

test("an agent's recipe works on a terminal: the project goes in, the key stays out, and the changes come back", async () => {
  const project = join(folder, "project");
  await mkdir(project);
  const answer = `${screen}open("answer", "w").write(os.environ["AGENT_KEY"])\n`;
  await writeFile(join(project, "agent.py"), answer);
  const own = new Cli(daemon, { AGENT_KEY: "the-secret" });
  const access = ["--header", "api.example.com: x-api-key: $AGENT_KEY", "-e", "AGENT_KEY=placeholder"];
  const agent = own.onTerminal(["run", "-it", "-v", project, "--sync", ...access, "--", "python3", "agent.py"]);
  await agent.until(/ready.*size 80 24/s);
  agent.type("do it\rq!");
  await agent.until(/got 8 \w{64}/);
  await agent.until(/Brought back to ".*project": 1 written, 0 removed/);
  expect(await agent.ended, agent.output).toBe(0);
  expect(await readFile(join(project, "answer"), "utf8")).toBe("placeholder");
});
