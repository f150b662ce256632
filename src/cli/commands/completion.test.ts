/** Tests of the words that shells complete. */

import { expect, test } from "vitest";
import { type CompletionContext, completed, completionCommand } from "./completion.ts";

const lines: string[] = [];
const usages: Record<string, string> = {
  run: "Usage: sandkeep run [options]\n\nOptions:\n  --keep  do not delete it\n  -e, --env <name>\n",
  image: "Usage:\n  sandkeep image from-snapshot <snapshot> <name>\n  sandkeep image ls [--json]\n",
  drive: "Usage: sandkeep drive ls [options]\n       sandkeep drive create [--size <size>] <name>\n",
};
const context: CompletionContext = {
  commands: ["run", "rm", "exec", "cp", "drive", "image"],
  usage: async (command) => usages[command] ?? "",
  sandboxes: async () => ["demo", "dev", "other"],
  print: (line) => void lines.push(line),
};

test.each<[string, string[]]>([
  ["", ["cp", "drive", "exec", "image", "rm", "run"]],
  ["r", ["rm", "run"]],
  ["run --", ["--env", "--keep"]],
  ["run --k", ["--keep"]],
  ["exec de", ["demo", "dev"]],
  ["cp o", ["other:"]],
  ["drive ", ["create", "ls"]],
  ["image ", ["from-snapshot", "ls"]],
  ["drive create ", []],
  ["exec demo -- d", []],
  ["none ", []],
])('"sandkeep %s" is completed', async (line, words) => {
  expect(await completed(line.split(" "), context)).toEqual(words);
});

test("an unknown shell is an error that names the known ones", async () => {
  await expect(completionCommand(["bsh"], context)).rejects.toThrow(/Did you mean "bash"\?/);
  await expect(completionCommand(["tcsh"], context)).rejects.toThrow(/There are bash, zsh, fish\n/);
  await completionCommand(["words", "--", "ru"], context);
  expect(lines).toEqual(["run"]);
});
