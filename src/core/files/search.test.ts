/** Tests of a search inside a sandbox: the arguments of the program, and how its output is parsed. */

import { expect, test } from "vitest";
import { chunks, streamOf } from "../../../test/harness/fake-core.ts";
import { SandkeepError } from "../model/errors.ts";
import type { ExecSpec, Machine, OutputChunk } from "../ports/runtime.ts";
import { type SearchSpec, search } from "./search.ts";

interface Printed {
  output?: OutputChunk[];
  code?: number;
  timedOut?: boolean;
}

async function searched(spec: Partial<SearchSpec>, { output = [], code = 0, timedOut = false }: Printed) {
  const asked: ExecSpec[] = [];
  const signals: number[] = [];
  let exit: object | undefined;
  const machine = {
    exec: async (wanted: ExecSpec) => {
      asked.push(wanted);
      return {
        output: () => streamOf(output),
        get exit() {
          return exit;
        },
        get exited() {
          exit = { code, timedOut };
          return Promise.resolve(exit);
        },
        signal: async (signal: number) => void signals.push(signal),
      };
    },
  } as unknown as Machine; // a search uses nothing else of it
  const found = await search(machine, "user", "cmd_1", { path: "/w", limit: 10, ...spec });
  return { ...found, argv: asked[0]?.argv, signals };
}

test("a text is searched literally, a regular expression as one, and neither is read as an option", async () => {
  expect((await searched({ text: "--help" }, {})).argv).toEqual(["grep", "-rnHIZ", "-F", "-e", "--help", "--", "/w"]);
  const regex = await searched({ text: "a|b", regex: true, glob: "*.ts" }, {});
  expect(regex.argv).toEqual(["grep", "-rnHIZ", "-E", "--include=*.ts", "-e", "a|b", "--", "/w"]);
  expect((await searched({ glob: "*.ts" }, {})).argv).toEqual([
    "find",
    "-H",
    "/w",
    "-type",
    "f",
    "-name",
    "*.ts",
    "-print0",
  ]);
});

test("each line has its path and number, whatever the name contains and wherever a chunk ends", async () => {
  const output = chunks(
    ["stdout", "/w/a:1\nb"],
    ["stdout", "\x007:x:y\n/w/c\0"],
    ["stderr", "no\n"],
    ["stdout", "8:z\n"],
  );
  expect(await searched({ text: "x" }, { output })).toMatchObject({
    matches: [
      { path: "/w/a:1\nb", line: 7, text: "x:y" },
      { path: "/w/c", line: 8, text: "z" },
    ],
    more: false,
    signals: [],
  });
  const names = chunks(["stdout", "/w/a\nb\0/w/"], ["stdout", "c\0"]);
  expect((await searched({ glob: "*" }, { output: names })).matches).toEqual([{ path: "/w/a\nb" }, { path: "/w/c" }]);
});

test("at the limit the program is killed, and the result says that there may be more", async () => {
  const output = chunks(["stdout", "a\0b\0c\0"]);
  expect(await searched({ glob: "*", limit: 2 }, { output })).toMatchObject({
    matches: [{ path: "a" }, { path: "b" }],
    more: true,
    signals: [9],
  });
  expect(await searched({ glob: "*", limit: 3 }, { output })).toMatchObject({ more: false, signals: [] });
  expect(await searched({ glob: "*" }, { output, timedOut: true, code: 137 })).toMatchObject({ more: true });
});

test("of an endless line only the beginning is kept", async () => {
  const piece: ["stdout", Buffer] = ["stdout", Buffer.alloc(1 << 20, "x")];
  const output = chunks(["stdout", "/w/a\x001:"], ...Array.from({ length: 40 }, () => piece));
  expect(await searched({ text: "x" }, { output })).toMatchObject({ matches: [], more: true, signals: [9] });
  const ended = chunks(["stdout", "/w/a\x001:"], piece, ["stdout", "\n"]);
  const { matches } = await searched({ text: "x" }, { output: ended });
  expect(matches).toEqual([{ path: "/w/a", line: 1, text: "x".repeat(500) }]);
});

test("an error has the program's whole sentence, also if it arrives in pieces", async () => {
  const output = chunks(["stderr", "grep: "], ["stderr", "Unmatched ( or \\("], ["stderr", "\nand more\n"]);
  await expect(searched({ text: "(", regex: true }, { output, code: 2 })).rejects.toThrow(
    /^Cannot search "\/w": grep: Unmatched \( or \\\($/,
  );
});

test("a text with a line break is refused: the program would search for each of its lines", async () => {
  for (const text of ["a\nb", "a\n"]) await expect(searched({ text }, {})).rejects.toThrow("line break");
});

test("a search that fails entirely is an error, one that fails for some files is not", async () => {
  const output = chunks(["stderr", "grep: Unmatched (\n"]);
  await expect(searched({ text: "(", regex: true }, { output, code: 2 })).rejects.toThrow(
    'Cannot search "/w": grep: Unmatched (',
  );
  const some = chunks(["stderr", "grep: secret: Permission denied\n"], ["stdout", "/w/a\x001:x\n"]);
  expect(await searched({ text: "x" }, { output: some, code: 2 })).toMatchObject({ matches: [{ path: "/w/a" }] });
  const none = chunks(["stderr", "grep: /w/secret: Permission denied\n"]);
  expect(await searched({ text: "x" }, { output: none, code: 2 })).toMatchObject({ matches: [], more: false });
  const names = chunks(["stderr", "find: ‘/w/secret’: Permission denied\n"]);
  expect(await searched({ glob: "x" }, { output: names, code: 1 })).toMatchObject({ matches: [], more: false });
  const closed = chunks(["stderr", "find: ‘/w’: Permission denied\n"]);
  await expect(searched({ glob: "x" }, { output: closed, code: 1 })).rejects.toThrow("Permission denied");
  const exec = async () => {
    throw new SandkeepError("invalid", "no", { about: { kind: "executable" } });
  };
  const machine = { exec } as unknown as Machine; // an image without grep
  await expect(search(machine, "user", "cmd_1", { path: "/w", text: "x", limit: 1 })).rejects.toThrow(
    'Cannot search: "grep" is not in this sandbox\'s image',
  );
});
