/**
 * The states of a session and the events that move it from one to the next.
 *
 *   pending ──booted──▶ running ──stop──────▶ stopping ──────ended──▶ stopped
 *      │                   │ └──capture──▶ snapshotting ──ended────────▲
 *      │                   │                   └──discard──▶ stopping
 *      └─boot-failed─▶ failed
 *                          └──lost──▶ aborted ◀── lost ── stopping, snapshotting
 *
 *   pending       on record; its machine is being made
 *   running       its machine answers; commands and files work
 *   stopping      it was asked to stop or its time is over; a persistent one is captured here
 *   snapshotting  its file system is being captured, after which it stops
 *   stopped       over; what was to be kept is kept
 *   failed        over; it never ran
 *   aborted       over; its machine was lost
 *
 * A state never returns to an earlier one: running again is a new session. Three events may happen in the state that they
 * lead to, or after it, because the answer of the store to the first attempt can be lost: a session that is on record as
 * running may have booted just now, or its boot may yet fail, and one that is stopping may still be discarded.
 */

import type { SessionState } from "../model/sandbox.ts";

export type SessionEvent = "booted" | "boot-failed" | "stop" | "capture" | "discard" | "ended" | "lost";

export interface Transition {
  from: readonly SessionState[];
  to: SessionState;
}

export const transitions: Record<SessionEvent, Transition> = {
  booted: { from: ["pending", "running"], to: "running" },
  "boot-failed": { from: ["pending", "running"], to: "failed" },
  stop: { from: ["running"], to: "stopping" },
  capture: { from: ["running"], to: "snapshotting" },
  discard: { from: ["running", "snapshotting", "stopping"], to: "stopping" },
  ended: { from: ["stopping", "snapshotting"], to: "stopped" },
  lost: { from: ["running", "stopping", "snapshotting"], to: "aborted" },
};

/** states of a session that is not over */
export const openStates = ["pending", "running", "snapshotting", "stopping"] as const satisfies SessionState[];

/** states in which a session stays for ever */
export const overStates = ["stopped", "failed", "aborted"] as const satisfies SessionState[];

export function isOver(state: SessionState): boolean {
  return (overStates as SessionState[]).includes(state);
}
