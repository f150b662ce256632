/** An event as followers receive it, and its cursor. */

import type { Event } from "./event.ts";

/** An event with its cursor and time. */
export type Published = (Event | { type: "gap" }) & {
  /** names this event in `after` */
  cursor: string;
  /** in ms since 1970 */
  at: number;
};

/**
 * The place of an event. Numbers of a project increase by one. The series is a new one whenever events may be lost, so a
 * cursor never names two events.
 */
export interface Cursor {
  series: string;
  number: number;
}

export function cursorOf({ series, number }: Cursor): string {
  return `${series}-${number}`;
}

/** undefined if it is malformed */
export function parseCursor(cursor: string): Cursor | undefined {
  const [, series, number] = /^([A-Za-z0-9]{1,64})-(\d{1,15})$/.exec(cursor) ?? [];
  return series === undefined ? undefined : { series, number: Number(number) };
}
