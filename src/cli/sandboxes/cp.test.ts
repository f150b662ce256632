/** Tests of how the words of `sandkeep cp` and `sandkeep events` are read and shown. */

import { expect, test } from "vitest";
import { placeOf } from "./cp.ts";
import { eventLine } from "./events.ts";

test("a word with a colon before any slash names a sandbox", () => {
  expect(placeOf("demo:/tmp/a:b")).toEqual({ sandbox: "demo", path: "/tmp/a:b" });
  expect(placeOf("demo:")).toEqual({ sandbox: "demo", path: "." });
  for (const path of ["./a:b", "/a:b", "file", ".", ":x"]) expect(placeOf(path)).toEqual({ path });
});

test("an event is one line, whatever its texts contain", () => {
  const event = { type: "command.started", at: 0, cursor: "x-1", sandboxId: "sandbox_1", name: "a\u001b[2J\nb" };
  expect(eventLine(event)).toBe("1970-01-01 00:00:00.000  command.started       name=a\\u001b[2J\\u000ab");
});
