/** Rows that the store keeps in memory: always what the database holds, whatever changes them, and whenever. */

import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { newSandbox, noon, sessionOf, unique } from "../../test/conformance/store/host.ts";
import { tempDir } from "../../test/harness/harness.ts";
import type { Session } from "../core/model/sandbox.ts";
import type { Store } from "../core/ports/store.ts";
import { keepingRows } from "./kept-rows.ts";
import { openStore } from "./sql-store.ts";

/** a store as a daemon has it, and one that reads the same database each time */
async function bothStores(): Promise<{ store: Store; plain: Store }> {
  const path = join(await tempDir(), "store.db");
  const store = await openStore({ path }, { exclusive: () => undefined });
  const plain = await openStore({ path });
  onTestFinished(() => store.close());
  onTestFinished(() => plain.close());
  return { store, plain };
}

test("after every change of a session or its sandbox, both read as the database has them", async () => {
  const { store, plain } = await bothStores();
  const { sandbox, session } = await newSandbox(store, { tags: { a: "1" } });
  const next = sessionOf(sandbox, { id: unique("sbx_") });
  const changes: [keyof Store, () => Promise<unknown>][] = [
    [
      "moveSession",
      () => store.moveSession(session.id, ["pending"], "running", { startedAt: noon, expiresAt: noon + 9 }),
    ],
    ["updateSession", () => store.updateSession(session.id, ["running"], { timeout: 7 })],
    ["moveSessions", () => store.moveSessions(1000)],
    ["updateSandbox", () => store.updateSandbox(sandbox.id, { tags: { b: "2" }, updatedAt: noon + 5 })],
    ["moveSession", () => store.moveSession(session.id, ["running"], "stopped", { stoppedAt: noon, cpuMs: 5 })],
    ["addTotals", () => store.addTotals(session.id)],
    ["insertSession", () => store.insertSession(next, session.id)],
    ["endSession", () => store.endSession(next.id, ["pending"], "failed", { stoppedAt: noon, cpuMs: 3 })],
    ["deleteSandbox", () => store.deleteSandbox(sandbox.id, noon)],
    ["pruneSessions", () => store.pruneSessions([session.id, next.id])],
  ];
  for (const [name, change] of changes) {
    const before = [await store.getSession(session.id), await store.getSandbox(sandbox.id)];
    // From memory now.
    expect(await store.getSession(session.id), name).toBe(before[0]);
    expect(await store.getSandbox(sandbox.id), name).toBe(before[1]);
    await change();
    expect(await store.getSession(session.id), name).toEqual(await plain.getSession(session.id));
    expect(await store.getSandbox(sandbox.id), name).toEqual(await plain.getSandbox(sandbox.id));
  }
  expect(await store.getSession(session.id)).toBeUndefined();
});

test("a row that was read before or during a change is not kept", async () => {
  const reads: PromiseWithResolvers<Session | undefined>[] = [];
  const change = Promise.withResolvers<undefined>();
  const store = keepingRows({
    getSession: () => {
      const read = Promise.withResolvers<Session | undefined>();
      reads.push(read);
      return read.promise;
    },
    moveSession: () => change.promise,
  } as unknown as Store); // only these are called
  const old = { id: "s", state: "pending" } as Session; // the other fields do not matter
  const early = store.getSession("s");
  const changing = store.moveSession("s", ["pending"], "running", {});
  const during = store.getSession("s");
  for (const read of reads) read.resolve(old);
  await Promise.all([early, during]);
  change.resolve(undefined);
  await changing;
  const after = store.getSession("s");
  expect(reads).toHaveLength(3);
  reads[2]?.resolve({ ...old, state: "running" });
  expect(await after).toMatchObject({ state: "running" });
  expect(await store.getSession("s")).toMatchObject({ state: "running" });
  expect(reads).toHaveLength(3);
});

test("a failed change drops what was kept, and a kept row cannot be changed", async () => {
  const { store, plain } = await bothStores();
  const { session } = await newSandbox(store);
  const first = await store.getSession(session.id);
  expect(Object.isFrozen(first) && Object.isFrozen(first?.networkPolicy)).toBe(true);
  await expect(store.insertSession({ ...session, id: "a\0b" }, session.id)).rejects.toMatchObject({ code: "invalid" });
  expect(await store.getSession(session.id)).toEqual(await plain.getSession(session.id));
});
