/** Tests of polled watchers: what they buffer, and what they say when changes are lost. */

import { expect, test } from "vitest";
import { SandkeepError } from "../../../core/model/errors.ts";
import { Watchers } from "./watchers.ts";

const service = { clock: () => 0, logError: () => undefined };
const turn = () => new Promise((resolve) => setImmediate(resolve));
const all = 100_000;

/** a watch with many changes, that counts how many were read */
function storm() {
  const read = { count: 0, isClosed: false };
  async function* changes() {
    try {
      while (read.count < all) yield { name: `file ${read.count++}`, type: "EVENT_TYPE_CREATE" };
      throw new SandkeepError("limit", "changes came faster than they were taken, and some are lost");
    } finally {
      read.isClosed = true;
    }
  }
  return { read, changes };
}

test("a watcher that is full reads no more until it is polled, and loses nothing by that", async () => {
  const watchers = new Watchers(service);
  const { read, changes } = storm();
  const id = await watchers.create("s", async () => changes());
  await turn();
  expect(read.count).toBeLessThan(all / 2);
  const { count } = read;
  await turn();
  expect(read.count).toBe(count);
  const seen: object[] = [];
  while (seen.length < all) {
    seen.push(...(await watchers.events("s", id)));
    await turn();
  }
  expect(seen[all - 1]).toMatchObject({ name: `file ${all - 1}` });
  expect(JSON.stringify(seen.slice(0, count)).length).toBeLessThan(1.1 * 2 ** 20);
});

test("a loss is said once, after the changes before it, and the watch goes on", async () => {
  const watchers = new Watchers(service);
  async function* first() {
    yield { name: "before" };
    throw new SandkeepError("limit", "changes came faster than they were taken, and some are lost");
  }
  async function* second() {
    yield { name: "after" };
  }
  const watches = [first, second];
  const id = await watchers.create("s", async () => (watches.shift() ?? second)());
  await turn();
  expect(await watchers.events("s", id)).toEqual([{ name: "before" }]);
  await expect(watchers.events("s", id)).rejects.toMatchObject({ code: "resource_exhausted" });
  await turn();
  expect(await watchers.events("s", id)).toEqual([{ name: "after" }]);
  await expect(watchers.events("s", id)).rejects.toMatchObject({ code: "not_found" });
});

test("a full watcher that is removed closes its watch", async () => {
  const watchers = new Watchers(service);
  const { read, changes } = storm();
  const id = await watchers.create("s", async (signal) => {
    async function* untilAborted() {
      for await (const change of changes()) {
        if (signal.aborted) return;
        yield change;
      }
    }
    return untilAborted();
  });
  await turn();
  watchers.remove("s", id);
  await turn();
  expect(read).toMatchObject({ isClosed: true });
  expect(read.count).toBeLessThan(all);
});
