/** Tests of how a command line is divided into our options and the program's. */

import { expect, test } from "vitest";
import { splitAfterName } from "./exec.ts";
import { splitAtProgram } from "./run.ts";

test("exec: what follows the sandbox's name belongs to the program", () => {
  const split = (line: string) => splitAfterName(line.split(" "));
  expect(split("-it -e A=b demo bash -l")).toEqual({ own: ["-it", "-e", "A=b", "demo"], words: ["bash", "-l"] });
  expect(split("demo -- ls --json -- x")).toEqual({ own: ["demo"], words: ["ls", "--json", "--", "x"] });
  expect(split("--help")).toEqual({ own: ["--help"], words: [] });
  expect(split("--cwd /tmp demo")).toEqual({ own: ["--cwd", "/tmp", "demo"], words: [] });
});

test.each([
  ["-it", "-it", ""],
  ["-- a -- b", "", "a -- b"],
  ["img --keep -- a -- b", "img --keep", "a -- b"],
  ["-e A=b img sh -c x", "-e A=b img", "sh -c x"],
  ["-it img bash --login -- c", "-it img", "bash --login -- c"],
])('"run %s" has the options "%s" and the program "%s"', (line, own, words) => {
  const split = (text: string) => text.split(" ").filter((word) => word !== "");
  expect(splitAtProgram(split(line))).toEqual({ own: split(own), words: split(words) });
});
