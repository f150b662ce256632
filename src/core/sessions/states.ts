/**
 * The states of a session and the events that move it from one to the next.
 *
 *   pending ──booted──▶ running ──stop──────▶ stopping ──────ended──▶ stopped
 *      │                   │ └──capture──▶ snapshotting ──ended────────▲
 *      │                   │                   └──discard──▶ stopping
 *      └─boot-failed─▶ failed
 *                          └──lost──▶ aborted ◀── lost ── stopping, snapshotting
 *
 *   pending       stored; its machine is booting
 *   running       its machine answers; commands and files work
 *   stopping      a stop was requested or its time is over; a persistent one is captured here
 *   snapshotting  its file system is being captured, after which it stops
 *   stopped       over; its files are kept if it is persistent
 *   failed        over; it never ran
 *   aborted       over; its machine was lost
 *
 * A session never returns to an earlier state: to run again, its sandbox gets a new session. Three events may also
 * happen in the state that they lead to, or after it, because the store's answer to the first attempt can be lost. A
 * session stored as running may have just booted, or its boot may yet fail; a stopping one may still be discarded.
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

/** final states */
export const overStates = ["stopped", "failed", "aborted"] as const satisfies SessionState[];

export function isOver(state: SessionState): boolean {
  return (overStates as SessionState[]).includes(state);
}
