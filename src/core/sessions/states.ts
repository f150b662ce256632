/**
 * The states of a session and what moves it from one to the next.
 *
 *   pending ──booted──▶ running ──stop──────▶ stopping ──────ended──▶ stopped
 *      │                   │ └──capture──▶ snapshotting ──ended────────▲
 *      └─lost─▶ failed     └──lost──▶ aborted ◀── lost ── stopping, snapshotting
 *
 *   pending       on record; its machine is being made
 *   running       its machine answers; commands and files work
 *   stopping      it was asked to stop or its time is over; a persistent one is captured here
 *   snapshotting  its file system is being captured, after which it stops
 *   stopped       over; what was to be kept is kept
 *   failed        over; it never ran
 *   aborted       over; its machine was lost
 *
 * A state never returns to an earlier one: running again is a new session.
 */

import type { SessionState } from "../model/sandbox.ts";

export type LifecycleEvent = "booted" | "stop" | "capture" | "ended" | "lost";

const table: Record<SessionState, Partial<Record<LifecycleEvent, SessionState>>> = {
  pending: { booted: "running", lost: "failed" },
  running: { stop: "stopping", capture: "snapshotting", lost: "aborted" },
  stopping: { ended: "stopped", lost: "aborted" },
  snapshotting: { ended: "stopped", lost: "aborted" },
  stopped: {},
  failed: {},
  aborted: {},
};

/** undefined when this cannot happen in that state */
export function nextState(state: SessionState, event: LifecycleEvent): SessionState | undefined {
  return table[state][event];
}

/** the states from which an event is possible, for compare-and-set */
export function statesBefore(event: LifecycleEvent): SessionState[] {
  return (Object.keys(table) as SessionState[]).filter((state) => table[state][event] !== undefined);
}

export function isOver(state: SessionState): boolean {
  return Object.keys(table[state]).length === 0;
}
