/** How a process that does not answer is noticed. */

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Silence } from "./silence.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function watched(ask: () => Promise<unknown>) {
  const state = { waiting: 1, asked: 0, silent: 0 };
  const silence = new Silence({
    patience: 1000,
    waiting: () => state.waiting,
    ask: () => {
      state.asked++;
      return ask();
    },
    silent: () => state.silent++,
  });
  return { state, silence };
}

const never = () => new Promise(() => undefined);

test("a process that does not answer while a request waits is reported", async () => {
  const { state, silence } = watched(never);
  silence.watch();
  silence.watch();
  await vi.advanceTimersByTimeAsync(1999);
  expect(state).toEqual({ waiting: 1, asked: 1, silent: 0 });
  await vi.advanceTimersByTimeAsync(1);
  expect(state.silent).toBe(1);
});

test("a process that is only busy with a long request is asked again and again, and not reported", async () => {
  const { state, silence } = watched(async () => undefined);
  silence.watch();
  await vi.advanceTimersByTimeAsync(5000);
  expect(state).toEqual({ waiting: 1, asked: 5, silent: 0 });
});

test("a process is not asked if all requests were answered", async () => {
  const { state, silence } = watched(never);
  silence.watch();
  state.waiting = 0;
  await vi.advanceTimersByTimeAsync(10_000);
  expect(state).toEqual({ waiting: 0, asked: 0, silent: 0 });
});
