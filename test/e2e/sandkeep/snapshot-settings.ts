/** Changes of a snapshot: its name, and when it expires. */

import { expect } from "vitest";
import type { Received, Sent } from "./document.ts";

/** leaves the snapshot of the story with its name, and without an end */
export async function changedSnapshot(call: (id: string, sent?: Sent) => Promise<Received>): Promise<void> {
  const before = (await call("getSnapshot")).json;
  const week = 7 * 24 * 3_600_000;
  const renamed = await call("changeSnapshot", { body: { name: "renamed", expiration: week } });
  expect(renamed.json).toEqual({ ...before, name: "renamed", expiration: week, expiresAt: before.lastUsedAt + week });
  // A time that would be over already begins now.
  const soon = await call("changeSnapshot", { body: { name: before.name, expiration: 60_000 } });
  expect(soon.json.expiresAt).toBeGreaterThan(Date.now());
  expect((await call("changeSnapshot", { body: { expiration: 0 } })).json).toMatchObject({
    name: before.name,
    expiration: 0,
    expiresAt: null,
  });
  expect((await call("getSnapshot")).json.expiresAt).toBeNull();
  const { events } = (await call("readEvents", { query: { topics: "snapshot" } })).json;
  expect(events.at(-1)).toMatchObject({ type: "snapshot.changed", snapshotId: before.id });
}
