/** Sessions whose time runs while somebody sets the host's clock. */

import { expect, test } from "vitest";
import { Clock } from "../../src/core/clock.ts";
import type { Context } from "../../src/core/context.ts";
import type { Session } from "../../src/core/model/sandbox.ts";
import { Expiry } from "../../src/core/sessions/expiry.ts";
import { openStore } from "../../src/store/sql-store.ts";
import { newSandbox } from "../conformance/store/host.ts";
import { eventually } from "../harness/harness.ts";

const hour = 3_600_000;

test.each([-hour, hour])(
  "a session of 20 s ends after 20 s, though the clock is set by %d ms meanwhile",
  async (by) => {
    const time = { wall: Date.now(), steady: 0 };
    const store = await openStore({ path: ":memory:" });
    const { session } = await newSandbox(store);
    const running = { startedAt: time.wall, expiresAt: time.wall + 20_000, updatedAt: time.wall };
    await store.moveSession(session.id, ["pending"], "running", running);
    const stopped: Session[] = [];
    const clock = new Clock(
      () => time.wall,
      () => time.steady,
    );
    clock.move = (moved) => store.moveSessions(moved);
    const logError = (error: unknown) => {
      throw error;
    };
    const context = {
      store,
      now: () => clock.now(),
      settledNow: () => clock.settled(),
      logError,
    } as unknown as Context;
    // Only what an expiry asks of them is there.
    const expiry = new Expiry({
      context,
      endings: { stop: async (due: Session) => void stopped.push(due) },
      activity: { isStillUsed: async () => false },
    } as unknown as ConstructorParameters<typeof Expiry>[0]);
    const look = async () => {
      expiry.changed();
      await eventually("it has looked", async () => (await store.nextExpiry()) !== undefined);
      await new Promise((resolve) => setTimeout(resolve, 50));
    };
    time.wall += by + 19_000;
    time.steady += 19_000;
    await look();
    expect(stopped).toEqual([]);
    time.wall += 1000;
    time.steady += 1000;
    await look();
    expect(stopped[0]).toMatchObject({ id: session.id, startedAt: running.startedAt + by });
    await expiry.close();
    await store.close();
  },
);
