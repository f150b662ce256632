/** Tests of the needs that may be missing: a skip for any other reason would hide a failure. */

import { expect, test } from "vitest";
import { drawsOtherwise, excuses, outOfReach } from "./excuses.ts";
import { demand, has, needs } from "./needs.ts";

test("a command that does not exist is missing, one that every host has is not", () => {
  expect(has("the command sh")).toBe(true);
  expect(has("the command no-such-command")).toBe(false);
  expect(has("the file system proc")).toBe(true);
  expect(has("the file system nosuchfs")).toBe(false);
});

test("a test without its program fails, and says which", (context) => {
  const sentence = "Cannot run this test: it needs the command no-such-command";
  expect(() => needs(context, "the command sh", "the command no-such-command")).toThrow(sentence);
  expect(() => demand("the command no-such-command")).toThrow(sentence);
});

test("a test without its feature of the kernel is skipped, for a reason that excuses it", () => {
  const reasons: string[] = [];
  const context = { skip: (reason: string) => reasons.push(reason) } as unknown as Parameters<typeof needs>[0];
  needs(context, "the file system proc");
  needs(context, "the file system nosuchfs", "the file system nonesuch");
  expect(reasons).toEqual(["the kernel lacks the file system nosuchfs, the file system nonesuch"]);
  expect(reasons.every(excuses)).toBe(true);
  expect(excuses(outOfReach("PyPI"))).toBe(true);
  expect(excuses(drawsOtherwise)).toBe(true);
  expect(["", "needs the command curl", "flaky"].some(excuses)).toBe(false);
});
