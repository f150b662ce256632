/** Waiting with patience: for what comes, for what fails, and for what does neither. */

import { expect, test } from "vitest";
import { patiently } from "./patience.ts";

const never = new Promise<never>(() => undefined);
const patience = (longest: number, signal = new AbortController().signal) => ({ longest, signal, words: "Too late" });

test("what comes in time is given, and what fails fails", async () => {
  expect(await patiently(Promise.resolve(1), patience(60_000))).toBe(1);
  await expect(patiently(Promise.reject(new Error("no")), patience(60_000))).rejects.toThrow("no");
});

test("what does not come is given up with a sentence", async () => {
  await expect(patiently(never, patience(1))).rejects.toMatchObject({ code: "timeout", message: "Too late" });
});

test("a caller who has enough does not wait", async () => {
  const caller = new AbortController();
  const waiting = patiently(never, patience(60_000, caller.signal));
  caller.abort(new Error("enough"));
  await expect(waiting).rejects.toThrow("enough");
  await expect(patiently(never, patience(60_000, caller.signal))).rejects.toThrow("enough");
});
