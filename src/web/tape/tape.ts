/**
 * The tape: sessions with snapshots, commands, outbound connections and busy processors of a sandbox on one axis of time.
 * Dragging over it chooses a stretch, which is in the address and filters the tabs. A click on a command opens its output.
 * The same is in a table for people who cannot see the drawing.
 */

import { useRef, useState } from "preact/hooks";
import type { History, HistoryAnswer, SessionLoad } from "../data/history.ts";
import { now, type Sandbox } from "../data/live.ts";
import { html } from "../html.ts";
import { parameter, setParameters } from "../router.ts";
import { clock, counted, line, span as time, visible } from "../text.ts";
import { curve } from "./curve.ts";
import { axisPlace, axisWords, between, moved, place, type Stretch, stretchOf, ticks, width } from "./tape-scale.ts";

/** the stretch that the address names */
export function chosenStretch(): Stretch | undefined {
  const [from, to] = [Number(parameter("from")), Number(parameter("to"))];
  return from > 0 && to > from ? { from, to } : undefined;
}

/** shortest part of the width that is a stretch and not a click */
const shortest = 0.005;
/** where lanes begin, in units of the drawing */
const lanes = { sessions: 2, commands: 21, egress: 39, cpu: 58, bottom: 76 };

interface TapeProps {
  value: Sandbox;
  history: HistoryAnswer;
}

export function Tape({ value: { session }, history }: TapeProps) {
  const area = useRef<SVGSVGElement>(null);
  const [drag, setDrag] = useState<{ one: number; other: number } | undefined>(undefined);
  if (!history.value) return html`<div class="tape" aria-hidden="true"></div>`;
  const { sessions, hasOlder, commands, snapshots, lines, refused, loads } = history.value;
  const end = session.endedAt ?? now.value;
  const all = stretchOf(
    sessions.flatMap(({ startedAt, createdAt }) => startedAt ?? createdAt),
    end,
  );
  const x = (at: number) => place(all, at);
  const span = (start: number, last: number) => ({ x: x(start), width: Math.max(1.5, x(last) - x(start)) });
  const chosen = drag ? between(all, drag.one, drag.other) : chosenStretch();
  const partOf = (event: PointerEvent) => {
    const { left, width: wide } = area.current?.getBoundingClientRect() ?? { left: 0, width: 1 };
    return (event.clientX - left) / wide;
  };
  const choose = (stretch: Stretch | undefined) =>
    setParameters(stretch ? { from: String(stretch.from), to: String(stretch.to) } : { from: "", to: "" });
  const ended = (event: PointerEvent) => {
    if (!drag) return;
    setDrag(undefined);
    if (Math.abs(drag.one - drag.other) >= shortest) {
      choose(between(all, drag.one, drag.other));
      return;
    }
    const [under] = document.elementsFromPoint(event.clientX, event.clientY);
    const command = under instanceof SVGElement ? under.dataset.command : undefined;
    if (command === undefined) choose(undefined);
    else setParameters({ tab: "commands", command });
  };
  const pressed = (event: KeyboardEvent) => {
    const part = { ArrowLeft: -0.5, ArrowRight: 0.5 }[event.key];
    if (part !== undefined) choose(moved(chosen ?? lastPart(all), all, chosen ? part : 0));
    else if (event.key === "Escape") choose(undefined);
    else return;
    event.preventDefault();
  };
  const amounts = [
    counted(sessions.length, "session"),
    counted(snapshots.length, "snapshot"),
    counted(commands.length, "command"),
    counted(lines.length, "connection"),
  ];
  const summary = `${amounts.join(", ")} of which ${refused} refused`;
  return html`<div class="tape">
    <div class="lanes" aria-hidden="true"><span>sessions</span><span>commands</span><span>egress</span><span>cpu</span></div>
    <div class="drawing">
    <svg
      ref=${area} viewBox="0 0 ${width} ${lanes.bottom}" preserveAspectRatio="none" role="img" aria-label=${`Time line: ${summary}`}
      tabindex="0" onKeyDown=${pressed}
      onPointerDown=${(event: PointerEvent) => {
        area.current?.setPointerCapture(event.pointerId);
        setDrag({ one: partOf(event), other: partOf(event) });
      }}
      onPointerMove=${(event: PointerEvent) => drag && setDrag({ ...drag, other: partOf(event) })}
      onPointerUp=${ended}
    >
      ${ticks(all).map((at) => html`<line class="tick" x1=${x(at)} x2=${x(at)} y1="0" y2=${lanes.bottom} />`)}
      ${sessions.map(
        (each) => html`<rect
          class=${each.id === session.id ? "sess on" : "sess"} y=${lanes.sessions} height="14" rx="2"
          ...${span(each.startedAt ?? each.createdAt, each.endedAt ?? end)}
        ><title>${`session ${each.id} ${each.state}`}</title></rect>`,
      )}
      ${commands.map(
        (each) => html`<rect
          class=${commandKind(each.exitCode)} y=${lanes.commands} height="13" rx="1.5" data-command=${each.id}
          ...${span(each.startedAt, each.endedAt ?? end)}
        ><title>${line(each.command, each.args)}</title></rect>`,
      )}
      ${lines.map(({ at, allowed }) =>
        allowed === false
          ? html`<rect class="denied" y=${lanes.egress - 1} height="16" width="2.4" x=${x(Number(at))} />`
          : html`<rect class="passed" y=${lanes.egress + 3} height="10" width="1.2" x=${x(Number(at))} />`,
      )}
      ${loads.map((each) => html`<${Processors} load=${each} all=${all} />`)}
      ${session.endedAt === null && html`<line class="now" x1=${x(end)} x2=${x(end)} y1="0" y2=${lanes.bottom} />`}
      ${chosen && html`<rect class="brush" y="0.5" height=${lanes.bottom - 1} rx="2" ...${span(chosen.from, chosen.to)} />`}
    </svg>
    ${
      // Apart from the drawing, which is stretched.
      snapshots.map(
        ({ createdAt, id, name }) => html`<${Mark} at=${x(createdAt)} title=${`snapshot ${visible(name ?? id)}`} />`,
      )
    }
    <div class="axis">
      ${ticks(all).map((at) => html`<span style=${axisPlace(x(at))}>${axisWords(at, all)}</span>`)}
    </div>
    </div>
    ${
      (chosen || hasOlder) &&
      html`<div class="brushed">
        ${
          chosen &&
          html`<span>only ${clock(chosen.from)} – ${clock(chosen.to)}, ${time(chosen.to - chosen.from)}, in every tab</span>
            <button type="button" class="plain" onClick=${() => choose(undefined)}>Show all</button>`
        }
        ${hasOlder && html`<button type="button" class="plain" onClick=${history.readOlder}>Older sessions</button>`}
      </div>`
    }
    <details class="as-table"><summary><span class="unseen">Time line </span>as a table</summary><${AsTable} value=${history.value} end=${end} /></details>
  </div>`;
}

/** the busy processors of a session; the top of the lane is as many as it has */
function Processors({ load: { session, samples }, all }: { load: SessionLoad; all: Stretch }) {
  const points = [
    { at: session.startedAt ?? session.createdAt, value: samples[0]?.processors ?? 0 },
    ...samples.map(({ at, processors }) => ({ at, value: processors })),
  ];
  const frame = { stretch: all, most: session.vcpus, bottom: lanes.bottom, height: lanes.bottom - lanes.cpu };
  const { line: edge, area } = curve(points, frame);
  return html`<path class="cpu" d=${area} /><path class="cpu-edge" d=${edge} />`;
}

/** the last tenth, where a stretch begins that the keyboard chooses */
function lastPart({ from, to }: Stretch): Stretch {
  return { from: Math.round(to - (to - from) / 10), to };
}

function commandKind(exitCode: number | null): string {
  if (exitCode === null) return "going";
  return exitCode === 0 ? "done" : "denied";
}

/** a diamond at a moment, which keeps its shape however wide the tape is */
function Mark({ at, title }: { at: number; title: string }) {
  return html`<svg class="diamond" viewBox="0 0 12 12" style=${{ left: `${(at / width) * 100}%` }} aria-hidden="true">
    <title>${title}</title><path d="M6 .8L11.2 6 6 11.2.8 6z" />
  </svg>`;
}

const mostRows = 200;

function AsTable({ value: { sessions, commands, snapshots, lines, loads }, end }: { value: History; end: number }) {
  const rows = [
    ...sessions.map((each) => ({
      at: each.startedAt ?? each.createdAt,
      lane: "session",
      what: `${each.id}, ${each.state}`,
      for: (each.endedAt ?? end) - each.createdAt,
    })),
    ...snapshots.map((each) => ({ at: each.createdAt, lane: "snapshot", what: each.name ?? each.id, for: 0 })),
    ...commands.map((each) => ({
      at: each.startedAt,
      lane: "command",
      what: `${line(each.command, each.args)}, ${each.exitCode === null ? "runs" : `exited with ${each.exitCode}`}`,
      for: (each.endedAt ?? end) - each.startedAt,
    })),
    ...lines.map((each) => ({
      at: Number(each.at),
      lane: each.allowed === false ? "refused" : "connection",
      what: String(each.name ?? each.address ?? ""),
      for: 0,
    })),
    ...loads.flatMap(({ session, samples }) => {
      const [first] = samples;
      if (!first) return [];
      const [peak, last] = [Math.max(...samples.map(({ processors }) => processors)), samples.at(-1) ?? first];
      const what = `at most ${peak.toFixed(1)} of ${session.vcpus} processors`;
      return [{ at: first.at, lane: "cpu", what, for: last.at - first.at }];
    }),
  ].toSorted((a, b) => b.at - a.at);
  return html`<table><thead><tr><th scope="col">Time</th><th scope="col">Lane</th><th scope="col">What</th><th scope="col">Lasted</th></tr></thead>
    <tbody>${rows
      .slice(0, mostRows)
      .map(
        (row) =>
          html`<tr><td class="mono">${clock(row.at)}</td><td>${row.lane}</td><td class="mono">${visible(row.what)}</td><td class="mono">${row.for > 0 ? time(row.for) : ""}</td></tr>`,
      )}</tbody></table>`;
}
