/** How captures learn of data that the kernel could not write. */

import { expect, test } from "vitest";
import { StoreHealth } from "./store-health.ts";

const noSpace = () => Object.assign(new Error("Cannot sync the store"), { errno: -28 });

function healthOf({ hasMonitor = true } = {}) {
  const state: { hasLost: boolean; unreported: Error | undefined; flushes: number } = {
    hasLost: false,
    unreported: undefined,
    flushes: 0,
  };
  const health = new StoreHealth({
    monitor: hasMonitor ? { hasLost: () => state.hasLost } : undefined,
    isReadOnly: () => false,
    async sync() {
      state.flushes++;
      const { unreported } = state;
      // As the kernel does: it reports a loss only once.
      state.unreported = undefined;
      if (unreported) throw unreported;
    },
  });
  return { state, health };
}

test("a capture asks the monitor and flushes nothing, and fails after a loss", async () => {
  const { state, health } = healthOf();
  await health.requireWhole();
  expect(health.hasFailed).toBe(false);
  state.hasLost = true;
  for (let n = 0; n < 2; n++) await expect(health.requireWhole()).rejects.toThrow("EROFS");
  expect([health.hasFailed, state.flushes]).toEqual([true, 0]);
});

test("without a monitor every capture flushes the store, and all captures after a loss fail", async () => {
  const { state, health } = healthOf({ hasMonitor: false });
  await health.requireWhole();
  await health.requireWhole();
  expect([health.hasFailed, state.flushes]).toEqual([false, 2]);
  state.unreported = noSpace();
  await expect(health.requireWhole()).rejects.toThrow("Cannot sync the store");
  for (let n = 0; n < 2; n++) await expect(health.requireWhole()).rejects.toThrow("EROFS");
  expect([health.hasFailed, state.flushes]).toEqual([true, 3]);
});

test("a flush that got no answer does not fail the store", async () => {
  const { state, health } = healthOf();
  state.unreported = new Error("The connection to the launcher has ended");
  await expect(health.flush()).rejects.toThrow("has ended");
  expect(health.hasFailed).toBe(false);
  state.unreported = noSpace();
  await expect(health.flush()).rejects.toThrow("Cannot sync the store");
  expect(health.hasFailed).toBe(true);
});

test("a store counts as intact while there is no descriptor to look at it", () => {
  const look = (code: string) => () => {
    throw Object.assign(new Error(code), { code });
  };
  const of = (code: string) =>
    new StoreHealth({ monitor: undefined, isReadOnly: look(code), sync: async () => undefined });
  expect(of("EMFILE").hasFailed).toBe(false);
  expect(() => of("EACCES").hasFailed).toThrow("EACCES");
});
