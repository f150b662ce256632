/** Tests of which events may happen to a session in each state. */

import { describe, expect, test } from "vitest";
import type { SessionState } from "../model/sandbox.ts";
import { isAsleep, isOver, type SessionEvent, transitions } from "./states.ts";

const states: SessionState[] = [
  "pending",
  "running",
  "paused",
  "snapshotting",
  "stopping",
  "stopped",
  "failed",
  "aborted",
];
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

  test("is paused and resumed as often as its callers want, and may end while it is paused", () => {
    expect(nextState("running", "pause")).toBe("paused");
    expect(nextState("paused", "resume")).toBe("running");
    expect(nextState("paused", "stop")).toBe("stopping");
    expect(nextState("paused", "discard")).toBe("stopping");
    expect(nextState("paused", "lost")).toBe("aborted");
    expect(isOver("paused")).toBe(false);
    expect((["paused", "stopped", "running"] as const).map(isAsleep)).toEqual([true, true, false]);
  });

  test("never returns to a state it was in, except by a resume", () => {
    const reach = (state: SessionState, seen: SessionState[]): void => {
      expect(seen).not.toContain(state);
      for (const event of events.filter((each) => each !== "resume")) {
        const next = nextState(state, event);
        if (next && next !== state) reach(next, [...seen, state]);
      }
    };
    for (const state of states) reach(state, []);
  });

  test("can be captured at its end only while it runs, and stopped also while it is paused", () => {
    expect(transitions.stop.from).toEqual(["running", "paused"]);
    expect(transitions.capture.from).toEqual(["running"]);
  });
});
