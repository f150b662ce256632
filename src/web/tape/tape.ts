/**
 * The tape: sessions with snapshots, commands, outbound connections and busy processors of a sandbox on one axis of time.
 * Dragging over it chooses a stretch, which is in the address and filters the tabs. A click on a command opens its output.
 * The same is in a table for people who cannot see the drawing.
 */

import { useRef, useState } from "preact/hooks";
import type { HistoryAnswer, Tape as Recorded, Session } from "../data/history.ts";
import type { Sandbox } from "../data/live.ts";
import { html } from "../html.ts";
import { parameter, setParameters } from "../router.ts";
import { curve } from "../sandbox/curve.ts";
import { clock, counted, line, span as time, visible } from "../text.ts";
import { type Bar, commandBars, connectionBars, processorPoints } from "./tape-lanes.ts";
import { axisPlace, axisWords, between, moved, place, type Stretch, stretchOf, ticks, width } from "./tape-scale.ts";
import { TapeTable } from "./tape-table.ts";

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
  const { sessions, hasOlder, commands, tape, totals } = history.value;
  const { snapshots } = tape;
  const end = session.endedAt ?? tape.to;
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
    const { command, from, to } = under instanceof SVGElement ? under.dataset : {};
    if (command !== undefined) setParameters({ tab: "commands", command });
    // A bar of several commands: the tab lists them.
    else if (from !== undefined && to !== undefined) setParameters({ tab: "commands", command: "", from, to });
    else choose(undefined);
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
    counted(Math.max(commands.length, totals.commands), "command"),
    counted(totals.allowed + totals.refused, "connection"),
  ];
  const summary = `${amounts.join(", ")} of which ${totals.refused} refused`;
  const bars = commandBars(tape, commands, commands.length >= totals.commands);
  const connections = connectionBars(tape);
  const missing = missingWords(tape);
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
      ${bars.map((each) => html`<rect class=${each.kind} y=${lanes.commands} height="13" rx="1.5" ...${dataOf(each)} ...${span(each.from, each.to)}><title>${titleOf(each)}</title></rect>`)}
      ${connections.allowed.map((each) => html`<rect class=${each.kind} y=${lanes.egress + 3} height="10" ...${span(each.from, each.to)} />`)}
      ${connections.refused.map((each) => html`<rect class=${each.kind} y=${lanes.egress - 1} height="16" ...${span(each.from, each.to)} />`)}
      ${sessions.map((each) => html`<${Processors} session=${each} tape=${tape} all=${all} />`)}
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
      (chosen || hasOlder || missing !== "") &&
      html`<div class="brushed">
        ${
          chosen &&
          html`<span>only ${clock(chosen.from)} – ${clock(chosen.to)}, ${time(chosen.to - chosen.from)}, in every tab with times</span>
            <button type="button" class="plain" onClick=${() => choose(undefined)}>Show all</button>`
        }
        ${hasOlder && html`<button type="button" class="plain" onClick=${history.readOlder}>Older sessions</button>`}
        ${missing !== "" && html`<span class="missing">${missing}</span>`}
      </div>`
    }
    <details class="as-table"><summary><span class="unseen">Time line </span>as a table</summary><${TapeTable} value=${history.value} stretch=${chosen} /></details>
  </div>`;
}

/** what the tape does not show, in a sentence; empty if there is nothing */
function missingWords({ truncated: { sessions, snapshots, egress } }: Recorded): string {
  const parts = [sessions && "older sessions", snapshots && "older snapshots", egress && "some connections"];
  const missing = parts.filter((each) => each !== false).join(" and ");
  return missing === "" ? "" : `${missing} are not shown${egress ? ": their log is incomplete or no longer kept" : ""}`;
}

function dataOf({ from, to, command }: Bar): Record<string, string> {
  return command ? { "data-command": command.id } : { "data-from": String(from), "data-to": String(to) };
}

function titleOf({ command, kind }: Bar): string {
  if (command) return line(command.command, command.args);
  return kind === "denied" ? "several commands, some failed" : "several commands";
}

/** the busy processors of a session; the top of the lane is as many as it has */
function Processors({ session, tape, all }: { session: Session; tape: Recorded; all: Stretch }) {
  const lived = { from: session.startedAt ?? session.createdAt, to: session.endedAt ?? tape.to };
  const frame = { stretch: all, most: session.vcpus, bottom: lanes.bottom, height: lanes.bottom - lanes.cpu };
  const { line: edge, area } = curve(processorPoints(tape, lived), frame);
  return html`<path class="cpu" d=${area} /><path class="cpu-edge" d=${edge} />`;
}

/** the last tenth, where a stretch begins that the keyboard chooses */
function lastPart({ from, to }: Stretch): Stretch {
  return { from: Math.round(to - (to - from) / 10), to };
}

/** a diamond at a moment, which keeps its shape however wide the tape is */
function Mark({ at, title }: { at: number; title: string }) {
  return html`<svg class="diamond" viewBox="0 0 12 12" style=${{ left: `${(at / width) * 100}%` }} aria-hidden="true">
    <title>${title}</title><path d="M6 .8L11.2 6 6 11.2.8 6z" />
  </svg>`;
}
