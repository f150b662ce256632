/** Tests of session uses: how often they are stored, and which of them keep a session alive. */

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { session } from "../../../test/harness/fake-core.ts";
import type { Context } from "../context.ts";
import type { Session } from "../model/sandbox.ts";
import { Activity } from "./activity.ts";

const minute = 60_000;
const idle: Session = { ...session, lifetime: "idle", timeout: minute, startedAt: 0, expiresAt: minute };

beforeEach(() => void vi.useFakeTimers({ now: 0 }));
afterEach(() => void vi.useRealTimers());

/** an activity over one session, with its stored record and the number of commands that run in it */
function activityOf(initial: Session, commands = 0) {
  const fixture = { session: initial, writes: 0, commands };
  const context = {
    now: Date.now,
    limits: { maxTimeout: 10 * minute },
    logError: (error: unknown) => expect.unreachable(String(error)),
    runtime: { machine: () => ({ processes: () => Array.from({ length: fixture.commands }) }) },
    store: {
      getSession: async () => fixture.session,
      async updateSession(_: string, __: string[], changes: Partial<Session>) {
        fixture.writes++;
        fixture.session = { ...fixture.session, ...changes };
        return fixture.session;
      },
    },
    // An activity uses nothing else.
  } as unknown as Context;
  return { fixture, activity: new Activity(context) };
}

test("of many uses within a moment only the first and the last are stored", async () => {
  const { fixture, activity } = activityOf(idle);
  for (let i = 0; i < 100; i++) {
    activity.used(fixture.session);
    await vi.advanceTimersByTimeAsync(10);
  }
  expect(fixture).toMatchObject({ writes: 1, session: { lastActivityAt: 0, expiresAt: minute } });
  await vi.advanceTimersByTimeAsync(minute);
  expect(fixture).toMatchObject({ writes: 2, session: { lastActivityAt: 990, expiresAt: 990 + minute } });
});

test("use() stores the use at once", async () => {
  const { activity } = activityOf(idle);
  vi.setSystemTime(5000);
  expect(await activity.use(idle)).toMatchObject({ lastActivityAt: 5000, expiresAt: 5000 + minute });
});

test("a session without an idle timeout is never updated", async () => {
  const { fixture, activity } = activityOf(session);
  activity.used(session);
  activity.used({ ...session, lifetime: "unlimited" });
  expect(await activity.use(session)).toBe(session);
  await vi.advanceTimersByTimeAsync(minute);
  expect(fixture.writes).toBe(0);
});

test("a use counts with the stored timeout, which may have been extended meanwhile", async () => {
  const { fixture, activity } = activityOf({ ...idle, timeout: 3 * minute });
  activity.used(idle);
  await vi.advanceTimersByTimeAsync(1);
  expect(fixture.session.expiresAt).toBe(3 * minute);
});

test("an ended session is not changed", async () => {
  const { fixture, activity } = activityOf({ ...idle, state: "stopped" });
  activity.used(idle);
  await vi.advanceTimersByTimeAsync(minute);
  expect(fixture.writes).toBe(0);
});

test("an idle session goes on while a command runs, up to the longest time that any may run", async () => {
  const { fixture, activity } = activityOf(idle, 1);
  vi.setSystemTime(minute);
  expect(await activity.isStillUsed(fixture.session)).toBe(true);
  expect(fixture.session.expiresAt).toBe(2 * minute);
  vi.setSystemTime(10 * minute);
  expect(await activity.isStillUsed(fixture.session)).toBe(false);
  fixture.commands = 0;
  vi.setSystemTime(2 * minute);
  expect(await activity.isStillUsed(fixture.session)).toBe(false);
});

test("uses not yet stored when the daemon stops are dropped", async () => {
  const { fixture, activity } = activityOf(idle);
  activity.used(idle);
  activity.used(idle);
  activity.close();
  await vi.advanceTimersByTimeAsync(minute);
  expect(fixture.writes).toBe(1);
});
