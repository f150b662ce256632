/**
 * The tape: sessions with snapshots, commands, and outbound connections of a sandbox on one axis of time. Dragging over it
 * chooses a stretch, which is in the address and filters the tabs.
 */

import { useRef, useState } from "preact/hooks";
import { useAnswer } from "../data/answer.ts";
import { readEgress } from "../data/egress-log.ts";
import { now, type Sandbox } from "../data/live.ts";
import { html } from "../html.ts";
import { parameter, setParameters } from "../router.ts";
import { client } from "../session.ts";
import { clock } from "../text.ts";
import { between, place, type Stretch, stretchOf, width } from "./tape-scale.ts";

/** the stretch that the address names */
export function chosenStretch(): Stretch | undefined {
  const [from, to] = [Number(parameter("from")), Number(parameter("to"))];
  return from > 0 && to > from ? { from, to } : undefined;
}

/** ms between two reads while the sandbox runs, for connections, of which no event tells */
const every = 5000;
/** shortest part of the width that is a stretch and not a click */
const shortest = 0.005;

export function Tape({ value: { name, state, session } }: { value: Sandbox }) {
  const area = useRef<SVGSVGElement>(null);
  const [drag, setDrag] = useState<{ one: number; other: number } | undefined>(undefined);
  const turn = state === "running" ? Math.floor(now.value / every) : 0;
  const answer = useAnswer(
    `${name} ${session.id} ${turn}`,
    (signal) => history(name, session.id, signal),
    (event) => event.sessionId === session.id || event.sandbox === name,
  );
  if (!answer.value) return html`<div class="tape" aria-hidden="true"></div>`;
  const { sessions, commands, snapshots, lines } = answer.value;
  const end = session.endedAt ?? now.value;
  const all = stretchOf(
    sessions.flatMap(({ startedAt, createdAt }) => startedAt ?? createdAt),
    end,
  );
  const x = (at: number) => place(all, at);
  const span = (start: number, last: number) => ({ x: x(start), width: Math.max(1, x(last) - x(start)) });
  const chosen = drag ? between(all, drag.one, drag.other) : chosenStretch();
  const partOf = (event: PointerEvent) => {
    const { left, width: wide } = area.current?.getBoundingClientRect() ?? { left: 0, width: 1 };
    return (event.clientX - left) / wide;
  };
  const ended = () => {
    if (!drag) return;
    setDrag(undefined);
    const { from, to } = between(all, drag.one, drag.other);
    const isClick = Math.abs(drag.one - drag.other) < shortest;
    setParameters(isClick ? { from: "", to: "" } : { from: String(from), to: String(to) });
  };
  const refused = lines.filter(({ allowed }) => allowed === false).length;
  const summary = `${sessions.length} sessions, ${snapshots.length} snapshots, ${commands.length} commands, ${lines.length} connections of which ${refused} refused`;
  return html`<div class="tape">
    <div class="lanes" aria-hidden="true"><span>sessions</span><span>commands</span><span>egress</span></div>
    <svg
      ref=${area} viewBox="0 0 ${width} 54" preserveAspectRatio="none" role="img" aria-label=${`Time line: ${summary}`}
      onPointerDown=${(event: PointerEvent) => {
        area.current?.setPointerCapture(event.pointerId);
        setDrag({ one: partOf(event), other: partOf(event) });
      }}
      onPointerMove=${(event: PointerEvent) => drag && setDrag({ ...drag, other: partOf(event) })}
      onPointerUp=${ended}
    >
      ${sessions.map(
        (each) =>
          html`<rect class="sess" y="2" height="13" ...${span(each.startedAt ?? each.createdAt, each.endedAt ?? end)} />`,
      )}
      ${snapshots.map(({ createdAt }) => html`<rect class="snapped" y="1" height="15" width="4" x=${x(createdAt) - 2} />`)}
      ${commands.map(
        ({ startedAt, endedAt, exitCode }) =>
          html`<rect class=${commandKind(exitCode)} y="20" height="12" ...${span(startedAt, endedAt ?? end)} />`,
      )}
      ${lines.map(({ at, allowed }) =>
        allowed === false
          ? html`<rect class="denied" y="36" height="16" width="3" x=${x(Number(at))} />`
          : html`<rect class="passed" y="40" height="10" width="2" x=${x(Number(at))} />`,
      )}
      ${chosen && html`<rect class="brush" y="0" height="54" ...${span(chosen.from, chosen.to)} />`}
    </svg>
    <div class="axis">
      <span>${clock(all.from)}</span>
      ${
        chosen
          ? html`<span>only ${clock(chosen.from)} – ${clock(chosen.to)} <button type="button" onClick=${() => setParameters({ from: "", to: "" })}>Show all</button></span>`
          : html`<span>drag to filter</span>`
      }
      <span>${session.endedAt === null ? "now" : clock(all.to)}</span>
    </div>
  </div>`;
}

function commandKind(exitCode: number | null): string {
  if (exitCode === null) return "going";
  return exitCode === 0 ? "done" : "denied";
}

async function history(name: string, session: string, signal: AbortSignal) {
  const query = { limit: 100 };
  const params = { session };
  const [{ sessions }, { commands }, { snapshots }, { lines }] = await Promise.all([
    client.call("listSessions", { query: { sandbox: name, limit: 20 }, signal }),
    client.call("listCommands", { params, query, signal }),
    client.call("listSnapshots", { query: { ...query, sandbox: name }, signal }),
    readEgress(session),
  ]);
  return { sessions, commands, snapshots, lines };
}
