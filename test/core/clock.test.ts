/** The time of sessions: they end on time, also while somebody sets the host's clock. */

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Clock } from "../../src/core/clock.ts";
import type { Context } from "../../src/core/context.ts";
import type { Session } from "../../src/core/model/sandbox.ts";
import { Expiry } from "../../src/core/sessions/expiry.ts";
import { openStore } from "../../src/store/sql-store.ts";
import { newSandbox } from "../conformance/store/host.ts";

const hour = 3_600_000;

// Timers and clocks go on only as the test says, so that a busy host changes nothing.
beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** a session of 20 s that has begun, and what stops it; `by` is how far the wall clock has been set */
async function running() {
  const begun = Date.now();
  const host = { by: 0 };
  const store = await openStore({ path: ":memory:" });
  const { session } = await newSandbox(store);
  const changes = { startedAt: begun, expiresAt: begun + 20_000, updatedAt: begun };
  await store.moveSession(session.id, ["pending"], "running", changes);
  const stopped: { session: Session; after: number }[] = [];
  const clock = new Clock(
    () => Date.now() + host.by,
    () => Date.now() - begun,
  );
  clock.move = (moved) => store.moveSessions(moved);
  const logError = (error: unknown) => {
    throw error;
  };
  const now = () => clock.now();
  const context = { store, now, settledNow: () => clock.settled(), logError } as unknown as Context;
  const stop = async (due: Session) => void stopped.push({ session: due, after: Date.now() - begun });
  // Only what an expiry asks of them is there.
  const expiry = new Expiry({
    context,
    endings: { stop },
    activity: { isStillUsed: async () => false },
  } as unknown as ConstructorParameters<typeof Expiry>[0]);
  const close = async () => {
    await expiry.close();
    await store.close();
  };
  return { begun, host, session, stopped, expiry, close };
}

test("a session is stopped within milliseconds of its end, and not before", async () => {
  const { session, stopped, expiry, close } = await running();
  expiry.changed();
  await vi.advanceTimersByTimeAsync(19_999);
  expect(stopped).toEqual([]);
  await vi.advanceTimersByTimeAsync(6);
  expect(stopped[0]?.session.id).toBe(session.id);
  expect(stopped[0]?.after).toBeLessThanOrEqual(20_005);
  await close();
});

test.each([-hour, hour])(
  "a session of 20 s ends after 20 s, though the clock is set by %d ms meanwhile",
  async (by) => {
    const { begun, host, session, stopped, expiry, close } = await running();
    await vi.advanceTimersByTimeAsync(19_000);
    host.by = by;
    expiry.changed();
    await vi.advanceTimersByTimeAsync(900);
    expect(stopped).toEqual([]);
    await vi.advanceTimersByTimeAsync(200);
    expect(stopped[0]?.session).toMatchObject({ id: session.id, startedAt: begun + by });
    await close();
  },
);
