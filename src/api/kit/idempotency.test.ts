/** Requests that are sent twice happen once. */

import { beforeEach, expect, test } from "vitest";
import { type Answer, type Idempotency, once, storedIdempotency } from "./idempotency.ts";

let kept: Map<string, Answer | "running">;
let idempotency: Idempotency;
let done: number;

beforeEach(() => {
  kept = new Map();
  done = 0;
  idempotency = {
    async begin(key) {
      const there = kept.get(key);
      if (there === undefined) kept.set(key, "running");
      return there ?? "new";
    },
    async end(key, answer) {
      if (answer) kept.set(key, answer);
      else kept.delete(key);
    },
  };
});

const request = { key: "k1", team: "team", scope: "team create", request: "{}" };
const work = async () => ({ count: ++done });

test("a repeat returns the first answer", async () => {
  expect(await once(idempotency, request, work)).toEqual({ count: 1 });
  expect(await once(idempotency, request, work)).toEqual({ count: 1 });
});

test("without a key the work is done each time", async () => {
  const plain = { ...request, key: undefined };
  await once(idempotency, plain, work);
  expect(await once(idempotency, plain, work)).toEqual({ count: 2 });
  expect(kept.size).toBe(0);
});

test("the same key is independent in another scope", async () => {
  await once(idempotency, request, work);
  expect(await once(idempotency, { ...request, scope: "other create" }, work)).toEqual({ count: 2 });
});

test("a key that is used with another body is refused", async () => {
  await once(idempotency, request, work);
  await expect(once(idempotency, { ...request, request: "{ }" }, work)).rejects.toMatchObject({ code: "invalid" });
});

test("a failed request may be tried again with the same key", async () => {
  const fail = async () => {
    throw new Error("no");
  };
  await expect(once(idempotency, request, fail)).rejects.toThrow("no");
  expect(await once(idempotency, request, work)).toEqual({ count: 1 });
});

test("a repeat waits while the first request is running", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const first = once(idempotency, request, async () => {
    await promise;
    return work();
  });
  const second = once(idempotency, request, work);
  resolve();
  expect([await first, await second]).toEqual([{ count: 1 }, { count: 1 }]);
});

test("a repeat does not wait for ever", async () => {
  await idempotency.begin([...(await keysOf(request))][0] ?? "", "team");
  await expect(once(idempotency, { ...request, patience: 0 }, work)).rejects.toMatchObject({ code: "conflict" });
});

test.each(["", "ü", "a b", "x".repeat(256)])("%j is not a valid key", async (key) => {
  await expect(once(idempotency, { ...request, key }, work)).rejects.toMatchObject({ code: "invalid" });
});

test("a long answer is not kept, and what it answers is not done twice", async () => {
  const long = async () => ({ count: ++done, text: "x".repeat(300_000) });
  expect(await once(idempotency, request, long)).toMatchObject({ count: 1 });
  expect(JSON.stringify([...kept]).length).toBeLessThan(1000);
  await expect(once(idempotency, request, long)).rejects.toMatchObject({ code: "conflict" });
  await expect(once(idempotency, { ...request, request: "{ }" }, long)).rejects.toMatchObject({ code: "invalid" });
  expect(done).toBe(1);
});

test("a team whose answers of a day fill a GiB gets the old ones, and no new ones until the next day", async () => {
  let now = 0;
  let last = "";
  const seal = {
    seal(text: string) {
      last = text;
      return "x".repeat(256 << 20);
    },
    open: () => last,
    isSealed: () => true,
  };
  const store = {
    beginIdempotent: idempotency.begin as (key: string) => Promise<"new" | "running" | Answer>,
    endIdempotent: (key: string, answer: Answer | undefined) =>
      idempotency.end(key, answer && { ...answer, body: "" }, "team"),
  };
  const stored = storedIdempotency(store, () => now, seal);
  const ask = (key: string, team = "team") => once(stored, { ...request, key, team, scope: team }, work);
  for (const key of ["a", "b", "c", "d"]) await ask(key);
  await expect(ask("e")).rejects.toMatchObject({ code: "limit" });
  await expect(ask("e")).rejects.toMatchObject({ code: "limit" });
  expect(done).toBe(4);
  await ask("e", "other");
  expect(await ask("a")).toEqual({ count: 5 });
  now = 86_400_000;
  expect(await ask("e")).toEqual({ count: 6 });
});

/** the key under which a request is stored */
async function keysOf(it: typeof request): Promise<string[]> {
  await once(idempotency, it, work);
  const names = [...kept.keys()];
  kept.clear();
  return names;
}
