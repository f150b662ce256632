/** How captures learn of data that the kernel could not write. */

import { expect, test } from "vitest";
import { StoreHealth } from "./store-health.ts";

const noSpace = () => Object.assign(new Error("Cannot sync the store"), { errno: -28 });

function healthOf() {
  const state: { lastShort: number | undefined; lost: Error | undefined; flushes: number } = {
    lastShort: undefined,
    lost: undefined,
    flushes: 0,
  };
  const health = new StoreHealth({
    lastShort: () => state.lastShort,
    isReadOnly: () => false,
    async sync() {
      state.flushes++;
      const { lost } = state;
      // As the kernel does: it reports a loss only once.
      state.lost = undefined;
      if (lost) throw lost;
    },
  });
  return { state, health };
}

test("a capture waits for a flush only if the disk was short of room since the last one", async () => {
  const { state, health } = healthOf();
  await health.requireWhole();
  expect(state.flushes).toBe(0);
  state.lastShort = performance.now();
  await health.requireWhole();
  await health.requireWhole();
  expect(state.flushes).toBe(1);
});

test("every capture after a loss of data fails, no matter which one flushed first", async () => {
  const { state, health } = healthOf();
  state.lastShort = performance.now();
  state.lost = noSpace();
  await expect(health.flush()).rejects.toThrow("Cannot sync the store");
  expect(health.hasFailed).toBe(true);
  const other = healthOf();
  Object.assign(other.state, { lastShort: performance.now(), lost: noSpace() });
  await expect(other.health.requireWhole()).rejects.toThrow("EROFS");
  for (let n = 0; n < 2; n++) await expect(health.requireWhole()).rejects.toThrow("EROFS");
});

test("a flush that got no answer does not fail the store, and the next capture flushes again", async () => {
  const { state, health } = healthOf();
  state.lastShort = performance.now();
  state.lost = new Error("The connection to the launcher has ended");
  await expect(health.requireWhole()).rejects.toThrow("has ended");
  expect(health.hasFailed).toBe(false);
  await health.requireWhole();
  expect(state.flushes).toBe(2);
});
