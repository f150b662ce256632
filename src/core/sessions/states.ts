/**
 * The states of a session and the events that move it from one to the next.
 *
 *                   ┌──resume── paused ──stop─────────┐
 *                   │              ▲                   │
 *                   ▼   ┌──pause───┘                   ▼
 *   pending ──booted──▶ running ──stop──────▶ stopping ──────ended──▶ stopped
 *      │                   │ └──capture──▶ snapshotting ──ended────────▲
 *      │                   │                   └──discard──▶ stopping
 *      └─boot-failed─▶ failed
 *                          └──lost──▶ aborted ◀── lost ── paused, stopping, snapshotting
 *
 *   pending       stored; its machine is booting
 *   running       its machine answers; commands and files work
 *   paused        its machine is frozen with its memory, and its files are captured; a resume continues it
 *   stopping      a stop was requested or its time is over; a persistent one is captured here
 *   snapshotting  its file system is being captured, after which it stops
 *   stopped       over; its files are kept if it is persistent
 *   failed        over; it never ran
 *   aborted       over; its machine was lost
 *
 * Except for pauses, a session never returns to an earlier state: to run again, its sandbox gets a new session. The store
 * is right about pauses: where a daemon died between the store and the machine, the next one freezes or thaws it.
 *
 * Five events may also happen in the state that they lead to, or after it, because the store's answer to the first
 * attempt can be lost. A session stored as running may have just booted, or its boot may yet fail; a stopping one may
 * still be discarded.
 */

import type { SessionState } from "../model/sandbox.ts";

export type SessionEvent =
  | "booted"
  | "boot-failed"
  | "stop"
  | "capture"
  | "pause"
  | "resume"
  | "discard"
  | "ended"
  | "lost";

export interface Transition {
  from: readonly SessionState[];
  to: SessionState;
}

export const transitions: Record<SessionEvent, Transition> = {
  booted: { from: ["pending", "running"], to: "running" },
  "boot-failed": { from: ["pending", "running"], to: "failed" },
  stop: { from: ["running", "paused"], to: "stopping" },
  capture: { from: ["running"], to: "snapshotting" },
  pause: { from: ["running", "paused"], to: "paused" },
  resume: { from: ["paused", "running"], to: "running" },
  discard: { from: ["running", "paused", "snapshotting", "stopping"], to: "stopping" },
  ended: { from: ["stopping", "snapshotting"], to: "stopped" },
  lost: { from: ["running", "paused", "stopping", "snapshotting"], to: "aborted" },
};

/** states of a session that is not over */
export const openStates = [
  "pending",
  "running",
  "paused",
  "snapshotting",
  "stopping",
] as const satisfies SessionState[];

/** final states */
export const overStates = ["stopped", "failed", "aborted"] as const satisfies SessionState[];

export function isOver(state: SessionState): boolean {
  return (overStates as SessionState[]).includes(state);
}

/** whether its sandbox must be resumed before it can be used */
export function isAsleep(state: SessionState): boolean {
  return state === "paused" || isOver(state);
}
