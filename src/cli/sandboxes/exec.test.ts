/** Tests of how a command line is divided into our options and the program's. */

import { expect, test } from "vitest";
import { splitAfterName } from "./exec.ts";
import { splitAtDashes } from "./program.ts";

test("exec: what follows the sandbox's name belongs to the program", () => {
  const split = (line: string) => splitAfterName(line.split(" "));
  expect(split("-it -e A=b demo bash -l")).toEqual({ own: ["-it", "-e", "A=b", "demo"], words: ["bash", "-l"] });
  expect(split("demo -- ls --json -- x")).toEqual({ own: ["demo"], words: ["ls", "--json", "--", "x"] });
  expect(split("--help")).toEqual({ own: ["--help"], words: [] });
  expect(split("--cwd /tmp demo")).toEqual({ own: ["--cwd", "/tmp", "demo"], words: [] });
});

test("run: the first -- divides", () => {
  expect(splitAtDashes(["img", "--keep", "--", "a", "--", "b"])).toEqual({
    own: ["img", "--keep"],
    words: ["a", "--", "b"],
  });
  expect(splitAtDashes(["-it"])).toEqual({ own: ["-it"], words: undefined });
});
