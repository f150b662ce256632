/** Tests of words and options that a command does not know: each error is short and says what to write instead. */

import { expect, test } from "vitest";
import { readArgs } from "./command.ts";
import { otherCommand } from "./verbs.ts";

test("an unknown option is refused with a hint, and without the whole usage", async () => {
  const usage = "Usage: sandkeep run [options]\n\nOptions:\n  --keep  do not delete it\n";
  const others = { "--rm": "this is the default", "-d": "use --keep" };
  const refusal = (...args: string[]) =>
    readArgs(args, usage, { keep: { type: "boolean" } }, others).then(
      () => undefined,
      (error: Error) => error.message,
    );
  expect(await refusal("--rm")).toBe("Unknown option '--rm'\nhint: this is the default");
  expect(await refusal("-d")).toBe("Unknown option '-d'\nhint: use --keep");
  expect(await refusal("--kep")).toBe(
    `Unknown option '--kep'. Did you mean "--keep"?\nhint: sandkeep run --help lists the options`,
  );
  expect(await refusal("--constructor")).toBe(
    "Unknown option '--constructor'\nhint: sandkeep run --help lists the options",
  );
  expect(await refusal("--keep")).toBeUndefined();
});

test("a command of another tool is answered with ours, and a misspelt one with the one that was meant", () => {
  const known = ["ls", "restore", "run"];
  expect(otherCommand("list", known)).toBe("sandkeep ls lists sandboxes");
  expect(otherCommand("restart", known)).toMatch(/^sandkeep stop /);
  expect(otherCommand("rnu", known)).toBe('Did you mean "run"?');
  for (const name of ["frobnicate", "constructor"])
    expect(otherCommand(name, known)).toBe("sandkeep --help lists the commands");
});
