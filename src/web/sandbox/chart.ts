/**
 * A chart of one kind of use over time. Where there is a limit, the top is the limit, and a line marks 85 % of it. The
 * pointer, or the arrows of the keyboard, read the value of a moment. Dragging is left to the tape, whose stretch it shows.
 */

import { useRef, useState } from "preact/hooks";
import { html } from "../html.ts";
import { axisPlace, axisWords, place, type Stretch, ticks, width } from "../tape/tape-scale.ts";
import { clock } from "../text.ts";
import { curve, nearest, type Point, within } from "./curve.ts";

export interface Trace {
  name: string;
  points: readonly Point[];
}

interface ChartProps {
  title: string;
  /** one, or two of the same unit */
  traces: readonly Trace[];
  stretch: Stretch;
  /** the limit, if there is one */
  most?: number;
  words: (value: number) => string;
}

const height = 100;
/** the part of a limit that is worth a look */
const high = 0.85;

export function Chart({ title, traces: all, stretch, most, words }: ChartProps) {
  const area = useRef<SVGSVGElement>(null);
  const [at, setAt] = useState<number | undefined>(undefined);
  const traces = all.map(({ name, points }) => ({ name, points: within(points, stretch) }));
  const values = traces.flatMap(({ points }) => points.map(({ value }) => value));
  const peak = Math.max(0, ...values);
  const top = most ?? niceTop(peak);
  const moved = ({ clientX }: PointerEvent) => {
    const { left, width: wide } = area.current?.getBoundingClientRect() ?? { left: 0, width: 1 };
    setAt(stretch.from + ((clientX - left) / wide) * (stretch.to - stretch.from));
  };
  const pressed = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined) return;
    const points = traces[0]?.points ?? [];
    const now = nearest(points, at ?? stretch.to);
    const next = points[(now ? points.indexOf(now) : 0) + (at === undefined ? 0 : step)];
    if (next) setAt(next.at);
    event.preventDefault();
  };
  const read = traces.map(({ name, points }) => ({
    name,
    point: at === undefined ? points.at(-1) : nearest(points, at),
  }));
  const moment = at === undefined ? undefined : read[0]?.point?.at;
  const summary = `${title}: at most ${words(peak)}${most === undefined ? "" : ` of ${words(most)}`}`;
  const gone = () => setAt(undefined);
  // A chart is narrower than a tape: words to the left of their line would cover those before them.
  const hasRoom = (each: number) => place(stretch, each) < 0.88 * width;
  return html`<figure class="chart">
    <figcaption><b>${title}</b>
      ${read.map(({ name, point }) => point && html`<span class="num">${name} ${words(point.value)}</span>`)}
      <span class="num quiet" role="status">${moment === undefined ? `at most ${words(peak)}` : clock(moment)}</span></figcaption>
    <div class="plot">
      <div class="scale" aria-hidden="true"><span>${words(top)}</span>${most !== undefined && html`<span>85 %</span>`}<span>0</span></div>
      <svg ref=${area} viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" role="img" aria-label=${summary} tabindex="0"
        onPointerMove=${moved} onPointerLeave=${gone} onKeyDown=${pressed} onBlur=${gone}>
        ${ticks(stretch).map((each) => html`<line class="tick" x1=${place(stretch, each)} x2=${place(stretch, each)} y1="0" y2=${height} />`)}
        ${traces.map(({ points }, index) => {
          const { line, area: below } = curve(points, { stretch, most: top, bottom: height, height });
          return html`<path class=${`below trace${index}`} d=${below} /><path class=${`edge trace${index}`} d=${line} />`;
        })}
        ${most !== undefined && html`<line class="high" x1="0" x2=${width} y1=${height * (1 - high)} y2=${height * (1 - high)} />`}
        ${moment !== undefined && html`<line class="cross" x1=${place(stretch, moment)} x2=${place(stretch, moment)} y1="0" y2=${height} />`}
      </svg>
      <div class="axis">${ticks(stretch)
        .filter(hasRoom)
        .map((each) => html`<span style=${axisPlace(place(stretch, each))}>${axisWords(each, stretch)}</span>`)}</div>
    </div>
  </figure>`;
}

/** a round number just above the highest value */
function niceTop(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5].find((step) => step * power >= value) ?? 10) * power;
}
