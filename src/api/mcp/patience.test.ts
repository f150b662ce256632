/** Limited waits: for work that finishes, that fails, and that does neither. */

import { expect, test } from "vitest";
import { patiently } from "./patience.ts";

const never = new Promise<never>(() => undefined);
const patience = (longest: number, signal = new AbortController().signal) => ({ longest, signal, words: "Too late" });

test("a result in time is returned, and a failure is thrown", async () => {
  expect(await patiently(Promise.resolve(1), patience(60_000))).toBe(1);
  await expect(patiently(Promise.reject(new Error("no")), patience(60_000))).rejects.toThrow("no");
});

test("work that does not finish in time is an error with the given message", async () => {
  await expect(patiently(never, patience(1))).rejects.toMatchObject({ code: "timeout", message: "Too late" });
});

test("a caller that cancels does not wait", async () => {
  const caller = new AbortController();
  const waiting = patiently(never, patience(60_000, caller.signal));
  caller.abort(new Error("enough"));
  await expect(waiting).rejects.toThrow("enough");
  await expect(patiently(never, patience(60_000, caller.signal))).rejects.toThrow("enough");
});
