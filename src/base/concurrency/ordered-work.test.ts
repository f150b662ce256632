/** Tests of work that runs one after the other for each key. */

import { expect, test } from "vitest";
import { OrderedWork } from "./ordered-work.ts";

test("work with one key runs in order, also after a failure, and other keys do not wait", async () => {
  const ordered = new OrderedWork();
  const begun: string[] = [];
  const gate = Promise.withResolvers<void>();
  const first = ordered.run("a", async () => {
    begun.push("first");
    await gate.promise;
    throw new Error("it failed");
  });
  const second = ordered.run("a", async () => {
    begun.push("second");
    return 2;
  });
  await ordered.run("b", async () => void begun.push("other"));
  expect(begun).toEqual(["first", "other"]);
  gate.resolve();
  await expect(first).rejects.toThrow("it failed");
  expect(await second).toBe(2);
  expect(begun).toEqual(["first", "other", "second"]);
});

test("settled() waits for the work that was given before it, and not for its success", async () => {
  const ordered = new OrderedWork();
  const gate = Promise.withResolvers<void>();
  let isSettled = false;
  const work = ordered.run("a", () => gate.promise);
  const settled = ordered.settled("a").then(() => {
    isSettled = true;
  });
  await ordered.settled("b");
  expect(isSettled).toBe(false);
  gate.reject(new Error("it failed"));
  await expect(work).rejects.toThrow("it failed");
  await settled;
  expect(isSettled).toBe(true);
});
