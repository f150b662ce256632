/** Which input of a terminal was typed, and which is its own answer. */

import { expect, test } from "vitest";
import { isReport } from "./report.ts";

test.each([
  ["device attributes", "\x1b[?1;2c"],
  ["secondary device attributes", "\x1b[>0;276;0c"],
  ["status", "\x1b[0n"],
  ["place of the cursor", "\x1b[12;40R"],
  ["mode", "\x1b[?2026;2$y"],
  ["background colour", "\x1b]11;rgb:0000/0000/0000\x1b\\"],
  ["setting", "\x1bP1$r0m\x1b\\"],
])("an answer: %s", (_, data) => expect(isReport(data)).toBe(true));

test.each([
  ["a letter", "c"],
  ["an arrow", "\x1b[A"],
  ["an arrow with a modifier", "\x1b[1;5C"],
  ["a function key", "\x1b[15~"],
  ["F3 in another form", "\x1bOR"],
  ["Escape", "\x1b"],
  ["Alt and a letter", "\x1bc"],
  ["a paste", "\x1b[200~text\x1b[201~"],
])("typed: %s", (_, data) => expect(isReport(data)).toBe(false));
