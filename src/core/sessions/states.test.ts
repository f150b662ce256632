/** What may happen to a session, and what may not. */

import { describe, expect, test } from "vitest";
import type { SessionState } from "../model/sandbox.ts";
import { isOver, type LifecycleEvent, nextState, statesBefore } from "./states.ts";

const states: SessionState[] = ["pending", "running", "snapshotting", "stopping", "stopped", "failed", "aborted"];
const events: LifecycleEvent[] = ["booted", "stop", "capture", "ended", "lost"];

describe("a session", () => {
  test("goes from pending over running and stopping to stopped", () => {
    expect(nextState("pending", "booted")).toBe("running");
    expect(nextState("running", "stop")).toBe("stopping");
    expect(nextState("stopping", "ended")).toBe("stopped");
  });

  test("that never ran has failed, one that ran was aborted", () => {
    expect(nextState("pending", "lost")).toBe("failed");
    expect(nextState("running", "lost")).toBe("aborted");
    expect(nextState("snapshotting", "lost")).toBe("aborted");
  });

  test.each(["stopped", "failed", "aborted"] as const)("that is %s stays so", (state) => {
    expect(isOver(state)).toBe(true);
    for (const event of events) expect(nextState(state, event)).toBeUndefined();
  });

  test("never returns to a state it was in", () => {
    const reach = (state: SessionState, seen: SessionState[]): void => {
      expect(seen).not.toContain(state);
      for (const event of events) {
        const next = nextState(state, event);
        if (next) reach(next, [...seen, state]);
      }
    };
    for (const state of states) reach(state, []);
  });

  test("can be stopped or captured only while it runs", () => {
    expect(statesBefore("stop")).toEqual(["running"]);
    expect(statesBefore("capture")).toEqual(["running"]);
  });
});
