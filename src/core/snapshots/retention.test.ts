/** Tests of which snapshots stay when a sandbox keeps only its last few, and of when deleted ones go. */

import { expect, test } from "vitest";
import { sandbox, session, snapshot, time } from "../../../test/harness/fake-core.ts";
import type { Context } from "../context.ts";
import { Events } from "../events/events.ts";
import type { Snapshot } from "../model/sandbox.ts";
import type { Descriptions } from "../recovery/descriptions.ts";
import { Retention } from "./retention.ts";

const day = 86_400_000;
const kept = { id: "kept", image: "host", size: 1, layers: [], createdAt: time };

/** the changes of the older snapshot when a newer one is recorded and only one is kept */
async function evicted(snapshotExpiration: number): Promise<Partial<Snapshot>> {
  const changes: Partial<Snapshot>[] = [];
  const older = { ...snapshot, id: "snap_older", expiration: 2 * day, expiresAt: time + 2 * day };
  const keepLastSnapshots = { count: 1, deleteEvicted: false };
  // A capture uses nothing else of them.
  const context = {
    events: new Events({ run: "run", now: () => 0 }),
    store: {
      getSandbox: async () => ({ ...sandbox, keepLastSnapshots }),
      insertSnapshot: async () => undefined,
      updateSandbox: async () => undefined,
      snapshotsOf: async () => [{ ...snapshot, id: "snap_newer" }, older],
      updateSnapshot: async (_: string, change: Partial<Snapshot>) => void changes.push(change),
    },
    runtime: { snapshots: { settled: async () => undefined } },
    ids: { snapshot: () => "snap_newer" },
    now: () => time,
    limits: { snapshotExpiration },
    logError: () => undefined,
  } as unknown as Context;
  const descriptions = { snapshot: async () => undefined } as unknown as Descriptions;
  const retention = new Retention(context, descriptions, { has: () => false });
  await retention.record(session, kept, { method: "manual" });
  await retention.settled();
  expect(changes).toHaveLength(1);
  return changes[0] ?? {};
}

test("an evicted snapshot that is not deleted lives on for the default time", async () => {
  expect(await evicted(30 * day)).toEqual({ expiration: 30 * day, expiresAt: time + 30 * day });
});

test("an evicted snapshot lives for ever if that is the default time", async () => {
  expect(await evicted(0)).toEqual({ expiration: 0, expiresAt: undefined });
});

test("a snapshot that is deleted while others are being collected is collected too", async () => {
  const stored = new Set(["first", "second"]);
  const there = new Set(stored);
  let collections = 0;
  const context = {
    events: new Events({ run: "run", now: () => 0 }),
    store: {
      updateSnapshot: async (id: string) => void stored.delete(id),
      liveRuntimeSnapshots: async () => [...stored],
      isDeletedSnapshot: async (id: string) => !stored.has(id),
    },
    runtime: {
      snapshots: {
        list: async () => [...there].map((id) => ({ id })),
        delete: async (id: string) => void there.delete(id),
        async collect() {
          // The list was read before this.
          if (collections++ === 0) await retention.delete({ ...snapshot, id: "second", runtimeId: "second" });
        },
      },
    },
    logError: () => undefined,
  } as unknown as Context;
  const retention = new Retention(context, { forget: () => undefined } as unknown as Descriptions, {
    has: () => false,
  });
  await retention.delete({ ...snapshot, id: "first", runtimeId: "first" });
  await retention.settled();
  expect([...there]).toEqual([]);
});
