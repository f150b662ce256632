/** Tests of words and options that a command does not know: each error is short and says what to write instead. */

import { expect, test } from "vitest";
import { readArgs } from "./args.ts";
import { otherCommand } from "./verbs.ts";

test("an unknown option is refused with a hint, and without the whole usage", () => {
  const usage = "Usage: sandkeep run [options]\n\nOptions:\n  --keep  do not delete it\n";
  const refusal = (...args: string[]) => {
    try {
      readArgs(args, usage, { keep: { type: "boolean" } }, { "--rm": "this is the default", "-d": "use --keep" });
      return undefined;
    } catch (error) {
      return (error as Error).message;
    }
  };
  expect(refusal("--rm")).toBe("Unknown option '--rm'\nhint: this is the default");
  expect(refusal("-d")).toBe("Unknown option '-d'\nhint: use --keep");
  expect(refusal("--kep")).toBe(
    `Unknown option '--kep'. Did you mean "--keep"?\nhint: sandkeep run --help lists the options`,
  );
  expect(refusal("--constructor")).toBe("Unknown option '--constructor'\nhint: sandkeep run --help lists the options");
  expect(refusal("--keep")).toBeUndefined();
});

test("a command of another tool is answered with ours, and a misspelt one with the one that was meant", () => {
  const known = ["ls", "restore", "run"];
  expect(otherCommand("list", known)).toBe("sandkeep ls lists sandboxes");
  expect(otherCommand("restart", known)).toMatch(/^sandkeep stop /);
  expect(otherCommand("rnu", known)).toBe('Did you mean "run"?');
  for (const name of ["frobnicate", "constructor"])
    expect(otherCommand(name, known)).toBe("sandkeep --help lists the commands");
});
