/** Which command a process belongs to: its own, its session's, its ancestor's, or nobody's. */

import { expect, test } from "vitest";
import type { Ancestry } from "../../../protocols/egress-control.ts";
import { commandOf, type Leader } from "./ancestry.ts";

const running: Leader[] = [
  { id: "first", pid: 10 },
  { id: "second", pid: 20 },
  { id: "starting", pid: 0 },
];
const ended: Leader[] = [{ id: "over", pid: 30, exit: { exitedAt: 5000 } }];

test.each<[what: string, ancestry: Ancestry, command: string | undefined]>([
  ["a command's own process", [[10, 10, 0]], "first"],
  ["a process of its session whose parent has gone", [[11, 20, 0]], "second"],
  [
    "a descendant with a session of its own",
    [
      [13, 12, 0],
      [12, 12, 0],
      [10, 10, 0],
    ],
    "first",
  ],
  ["one that a command left behind", [[31, 30, 5000]], "over"],
  [
    "the child of one that a command left behind",
    [
      [32, 30, 9000],
      [31, 30, 4000],
    ],
    "over",
  ],
  ["a command's own process that has ended since", [[30, 30, 4000]], "over"],
  ["one that was given the number of a command that is over", [[30, 30, 5001]], undefined],
  ["a process in the session of such a one", [[31, 30, 5001]], undefined],
  ["one that has made itself independent", [[40, 40, 0]], undefined],
  ["one of the agent's", [[41, 0, 0]], undefined],
])("%s", (_, ancestry, command) => {
  expect(commandOf(ancestry, running, ended)).toBe(command);
});

test("a number that is used again stands for the command that has it now", () => {
  const again = [...running, { id: "later", pid: 30 }];
  expect(commandOf([[33, 30, 4000]], again, ended)).toBe("later");
});
