/** Tests of which events may happen to a session in each state. */

import { describe, expect, test } from "vitest";
import type { SessionState } from "../model/sandbox.ts";
import { isOver, type SessionEvent, transitions } from "./states.ts";

const states: SessionState[] = ["pending", "running", "snapshotting", "stopping", "stopped", "failed", "aborted"];
const events = Object.keys(transitions) as SessionEvent[];

/** undefined if the event cannot happen in that state */
function nextState(state: SessionState, event: SessionEvent): SessionState | undefined {
  const { from, to } = transitions[event];
  return from.includes(state) ? to : undefined;
}

describe("a session", () => {
  test("goes from pending through running and stopping to stopped", () => {
    expect(nextState("pending", "booted")).toBe("running");
    expect(nextState("running", "stop")).toBe("stopping");
    expect(nextState("stopping", "ended")).toBe("stopped");
  });

  test("that never ran has failed, one that ran was aborted", () => {
    expect(nextState("pending", "boot-failed")).toBe("failed");
    expect(nextState("pending", "lost")).toBeUndefined();
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
        if (next && next !== state) reach(next, [...seen, state]);
      }
    };
    for (const state of states) reach(state, []);
  });

  test("can be stopped or captured only while it runs", () => {
    expect(transitions.stop.from).toEqual(["running"]);
    expect(transitions.capture.from).toEqual(["running"]);
  });
});
