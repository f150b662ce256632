/** The time axis of a tape: where a moment is drawn, and which moments a stretch of it stands for. */

import { clock } from "../text.ts";

export interface Stretch {
  from: number;
  to: number;
}

/** width of the drawing, in its own units */
export const width = 1000;

/** the stretch that shows all of these moments, never shorter than a minute */
export function stretchOf(moments: readonly number[], now: number): Stretch {
  const from = Math.min(now, ...moments);
  return { from, to: Math.max(now, from + 60_000, ...moments) };
}

/** where a moment is drawn; those outside are at the edges */
export function place({ from, to }: Stretch, at: number): number {
  return Math.min(width, Math.max(0, ((at - from) / (to - from)) * width));
}

/** the stretch between two places, each a part of the width from 0 to 1 */
export function between({ from, to }: Stretch, one: number, other: number): Stretch {
  const at = (part: number) => Math.round(from + Math.min(1, Math.max(0, part)) * (to - from));
  return { from: at(Math.min(one, other)), to: at(Math.max(one, other)) };
}

/** whether something that lasted from `start` to `end` touches the stretch; all does if there is none */
export function touches(stretch: Stretch | undefined, start: number, end = start): boolean {
  return stretch === undefined || (start <= stretch.to && end >= stretch.from);
}

const steps = [10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000, 3_600_000, 10_800_000, 43_200_000, 86_400_000];
const most = 8;

/** round moments inside the stretch, for the lines and words of the axis */
export function ticks({ from, to }: Stretch): number[] {
  const wanted = (to - from) / most;
  const day = 86_400_000;
  const step = steps.find((each) => each >= wanted) ?? Math.ceil(wanted / day) * day;
  const found: number[] = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return found;
}

/** the words of a tick: without seconds where they are always zero */
export function axisWords(at: number, { from, to }: Stretch): string {
  return to - from < 4 * 60_000 ? clock(at) : clock(at).slice(0, 5);
}

/** where the words of a tick stand: beside its line, on the side where there is room */
export function axisPlace(at: number): { left: string } | { right: string } {
  const percent = (at / width) * 100;
  return percent > 90 ? { right: `${100 - percent}%` } : { left: `${percent}%` };
}

/** moves a stretch by a part of its length, and keeps it inside the whole */
export function moved(stretch: Stretch, whole: Stretch, part: number): Stretch {
  const length = stretch.to - stretch.from;
  const from = Math.min(whole.to - length, Math.max(whole.from, Math.round(stretch.from + length * part)));
  return { from, to: from + length };
}
