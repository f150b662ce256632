/** Small drawings of amounts. Geometry is in attributes of SVG, which the content security policy permits. */

import { now, type Sandbox } from "../data/live.ts";
import { html } from "../html.ts";
import { span } from "../text.ts";

export function Bar({ part, isLow = false }: { part: number; isLow?: boolean }) {
  const width = Math.round(Math.min(1, Math.max(0, part)) * 100);
  return html`<svg class=${isLow ? "bar low" : "bar"} viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
    <rect class="all" width="100" height="4" rx="2" /><rect class="part" width=${width} height="4" rx="2" />
  </svg>`;
}

interface SparkProps {
  /** oldest first; the newest is at the right */
  values: readonly number[];
  most: number;
  /** how many values fill the width; default as many as there are */
  slots?: number;
}

/** a small line over time without words; the number beside it says the same */
export function Spark({ values, most, slots = values.length }: SparkProps) {
  const step = 72 / Math.max(1, slots - 1);
  const begin = 72 - step * Math.max(0, values.length - 1);
  const points = values.map(
    (value, at) =>
      `${(begin + at * step).toFixed(1)},${(15 - Math.min(1, value / Math.max(most, 1e-9)) * 14).toFixed(1)}`,
  );
  return html`<svg class="spark" viewBox="0 0 72 16" aria-hidden="true">
    ${values.length > 1 && html`<polygon points=${`${begin.toFixed(1)},16 ${points.join(" ")} 72,16`} /><polyline points=${points.join(" ")} />`}
  </svg>`;
}

/** the time that is left, with a bar where there is a limit */
export function Ends({ value: { state, session, persistent } }: { value: Sandbox }) {
  if (state !== "running" || session.expiresAt === null) {
    return html`<span class="quiet">${state === "stopped" ? (persistent ? "kept" : "ended") : state}</span>`;
  }
  const left = session.expiresAt - now.value;
  const isLow = left < 15 * 60_000;
  return html`<span class="cell2"><span class=${isLow ? "pause" : undefined}>${span(left)}</span><${Bar} part=${left / session.timeout} isLow=${isLow} /></span>`;
}
