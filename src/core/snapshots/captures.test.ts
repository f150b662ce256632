/**
 * Tests of captures of running sessions: they run in sequence, none starts after the end has begun, and the end waits.
 */

import { expect, test } from "vitest";
import { session, snapshot } from "../../../test/harness/fake-core.ts";
import type { Context } from "../context.ts";
import { SandkeepError } from "../model/errors.ts";
import type { SessionState, Snapshot } from "../model/sandbox.ts";
import type { Machine } from "../ports/runtime.ts";
import { Captures } from "./captures.ts";
import type { Retention } from "./retention.ts";

function fixture() {
  const events: string[] = [];
  const gates: (() => void)[] = [];
  const state = { now: "running" as SessionState, snapshot: "created" as Snapshot["state"] };
  // A capture uses nothing else of them.
  const store = {
    getSession: async () => ({ ...session, state: state.now }),
    getSandbox: async () => ({ currentSnapshotId: "snap_pause" }),
    getSnapshot: async (id: string) => ({ ...snapshot, id, sessionId: session.id, state: state.snapshot }),
  };
  const context = { store } as unknown as Context;
  const retention = {
    record: async (_: unknown, { id }: { id: string }, how: { method: string; isAside: boolean }) => {
      const words = [how.method !== "manual" && `as ${how.method}`, how.isAside && "aside"];
      events.push(["recorded", id, ...words.filter(Boolean)].join(" "));
      return { ...snapshot, id };
    },
  } as unknown as Retention;
  let count = 0;
  const machine = {
    snapshot: () => {
      const id = `${++count}`;
      events.push(`captures ${id}`);
      return new Promise((resolve) => gates.push(() => resolve({ id })));
    },
  } as unknown as Machine;
  const captures = new Captures(context, retention);
  const refusal = () => new SandkeepError("conflict", "It is stopping");
  const take = () => captures.take({ session, machine, refusal });
  const forFork = (name?: string) => captures.forFork({ session, machine, name, refusal });
  return { events, gates, state, captures, take, forFork };
}

test("two captures run in sequence, so that the later one is recorded last", async () => {
  const { events, gates, take } = fixture();
  const both = [take(), take()];
  await open(gates, 1);
  await open(gates, 2);
  expect((await Promise.all(both)).map(({ id }) => id)).toEqual(["1", "2"]);
  expect(events).toEqual(["captures 1", "recorded 1", "captures 2", "recorded 2"]);
});

test("the snapshot of a fork is automatic, unless the caller has named it", async () => {
  const { events, gates, forFork } = fixture();
  const both = [forFork(), forFork("mine")];
  await open(gates, 1);
  await open(gates, 2);
  await Promise.all(both);
  expect(events).toEqual(["captures 1", "recorded 1 as automatic", "captures 2", "recorded 2"]);
});

test("a paused sandbox goes on resuming from the snapshot of its pause while there is one", async () => {
  const { events, gates, state, take } = fixture();
  state.now = "paused";
  const first = take();
  await open(gates, 1);
  await first;
  state.snapshot = "deleted";
  const second = take();
  await open(gates, 2);
  await second;
  expect(events).toEqual(["captures 1", "recorded 1 aside", "captures 2", "recorded 2"]);
});

test("an end waits for a pending capture, and no capture begins after it", async () => {
  const { events, gates, state, captures, take } = fixture();
  const first = take();
  await turn();
  state.now = "stopping";
  const ended = captures.settled(session.id).then(() => events.push("ended"));
  const refused = expect(take()).rejects.toThrow("It is stopping");
  await open(gates, 1);
  await Promise.all([first, ended, refused]);
  expect(events.indexOf("ended")).toBeGreaterThan(events.indexOf("recorded 1"));
  expect(events).not.toContain("captures 2");
  await captures.settled(session.id);
});

/** lets the n-th capture finish, once it has begun */
async function open(gates: (() => void)[], n: number): Promise<void> {
  while (gates.length < n) await turn();
  gates[n - 1]?.();
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
