/** Ends of sessions that fail, as on a full disk, or that are many at once: every session gets to its end by itself. */

import { expect, onTestFinished, test } from "vitest";
import type { Context } from "../../src/core/context.ts";
import { Events } from "../../src/core/events/events.ts";
import { SandkeepError } from "../../src/core/model/errors.ts";
import type { Session } from "../../src/core/model/sandbox.ts";
import type { Store } from "../../src/core/ports/store.ts";
import { Endings } from "../../src/core/sessions/end.ts";
import { Expiry, stopsAtOnce } from "../../src/core/sessions/expiry.ts";
import { Transitions } from "../../src/core/sessions/transitions.ts";
import type { Captures } from "../../src/core/snapshots/captures.ts";
import type { Retention } from "../../src/core/snapshots/retention.ts";
import { openStore } from "../../src/store/sql-store.ts";
import { newOwner, newSandbox } from "../conformance/store/host.ts";
import { eventually } from "../harness/harness.ts";

const usage = { cpuTime: 0, memory: 0, network: { received: 0, sent: 0 } };

/** a machine that stops, and whose files cannot be captured while the disk is full */
function worldOn(store: Store, disk: { isFull: boolean; hasLost?: boolean }) {
  const full = () => new SandkeepError("limit", "Cannot stop the machine in order: no space left on device");
  const ended = new Set<string>();
  const runtime = {
    machine: (id: string) =>
      ended.has(id)
        ? undefined
        : {
            stop: async () => {
              ended.add(id);
              if (disk.isFull) throw full();
              return { usage };
            },
          },
    end: (id: string) => (ended.has(id) ? { cause: "asked", usage } : undefined),
    salvage: async () => {
      if (disk.isFull) throw full();
      if (disk.hasLost) return undefined;
      return { id: "kept", image: "host", layers: [], size: 1, createdAt: 0 };
    },
    command: () => undefined,
  };
  // Only what an end asks of them is there.
  const events = new Events({ run: "run", now: Date.now });
  const context = { store, runtime, events, now: Date.now, logError: () => undefined } as unknown as Context;
  const retention = { record: async () => undefined } as unknown as Retention;
  const captures = { settled: async () => undefined } as unknown as Captures;
  const endings = new Endings(context, new Transitions(context), retention, captures);
  return { context, endings };
}

async function running(store: Store, expiresAt = Date.now()): Promise<Session> {
  const { session } = await newSandbox(store);
  const changes = { startedAt: expiresAt, expiresAt, updatedAt: expiresAt };
  return (await store.moveSession(session.id, ["pending"], "running", changes)) ?? session;
}

/** a session whose stop has just found the disk full */
async function stuck() {
  const store = await openStore({ path: ":memory:" });
  onTestFinished(() => store.close());
  const disk = { isFull: true, hasLost: false };
  const { endings } = worldOn(store, disk);
  onTestFinished(() => endings.close());
  const session = await running(store);
  await expect(endings.stop(session, "asked", "It was asked to stop")).rejects.toMatchObject({ code: "limit" });
  return { store, disk, endings, session };
}

test("a session whose stop found the disk full ends by itself once there is room", async () => {
  const { store, disk, endings, session } = await stuck();
  expect((await store.getSession(session.id))?.state).toBe("stopping");
  // Whoever wants to resume it is told why that cannot be, instead of waiting.
  await expect(endings.settled(session.id)).rejects.toMatchObject({ code: "limit" });
  disk.isFull = false;
  await eventually("it has ended", async () => (await store.getSession(session.id))?.state === "stopped");
});

test("whoever resumes a session that got stuck ends it, as soon as there is room", async () => {
  const { store, disk, endings, session } = await stuck();
  disk.isFull = false;
  await endings.settled(session.id);
  expect((await store.getSession(session.id))?.state).toBe("stopped");
});

test("a session whose files are gone when there is room again is said to be lost, so that its sandbox begins anew", async () => {
  const { store, disk, endings, session } = await stuck();
  Object.assign(disk, { isFull: false, hasLost: true });
  await endings.settled(session.id);
  expect(await store.getSession(session.id)).toMatchObject({ state: "aborted", endCause: "host" });
});

test("of many sessions that are due at once few are stopped at a time, and others are answered meanwhile", async () => {
  await using undo = new AsyncDisposableStack();
  const store = await openStore({ path: ":memory:" });
  undo.defer(() => store.close());
  const many = 1000;
  const owner = await newOwner(store);
  for (let n = 0; n < many; n++) {
    const { session } = await newSandbox(store, { owner });
    await store.moveSession(session.id, ["pending"], "running", { expiresAt: 1, startedAt: 0, updatedAt: 0 });
  }
  const { context } = worldOn(store, { isFull: false });
  let [now, most, ended] = [0, 0, 0];
  const endings = {
    async stop({ id }: Session) {
      most = Math.max(most, ++now);
      // what a stop keeps the program busy with, and what it waits for
      const busyUntil = performance.now() + 1;
      while (performance.now() < busyUntil);
      await new Promise((resolve) => setTimeout(resolve, 3));
      await store.moveSession(id, ["running"], "stopped", { updatedAt: 1 });
      now--;
      ended++;
    },
  };
  const options = { context, endings, activity: { isStillUsed: async () => false } };
  const expiry = new Expiry(options as unknown as ConstructorParameters<typeof Expiry>[0]);
  undo.defer(() => expiry.close());
  expiry.changed();
  /** how many stops ended while somebody else waited for an answer */
  const meanwhile: number[] = [];
  while (ended < many) {
    const before = ended;
    await new Promise((resolve) => setImmediate(resolve));
    await store.getSession("any");
    meanwhile.push(ended - before);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  expect(most).toBeLessThanOrEqual(stopsAtOnce);
  expect(Math.max(...meanwhile)).toBeLessThanOrEqual(2 * stopsAtOnce);
});
