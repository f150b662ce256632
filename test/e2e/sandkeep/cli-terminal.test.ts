/** Programs that use the whole terminal, through `sandkeep run -it` and `exec -it`, against one daemon. */

import { randomBytes } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { tempDir } from "../../harness/harness.ts";
import { needs } from "../../runner/needs.ts";
import { Cli } from "./cli.ts";

const cli = new Cli(daemonOfFile());
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
  await repl.until(/KeyboardInterrupt/);
  repl.type("6*7\n");
  await repl.until(/42/);
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
