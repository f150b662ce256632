/** The outbound connections of all sandboxes, newest first, and the hosts that were refused most. */

import { useState } from "preact/hooks";
import { useAnswer } from "../data/answer.ts";
import { now } from "../data/live.ts";
import type { ProjectLine } from "../egress/refusals.ts";
import { verdictOf } from "../egress/verdict.ts";
import { html } from "../html.ts";
import { Unanswered } from "../parts/answered.ts";
import { Connection, placeOf } from "../parts/connection.ts";
import { Icon } from "../parts/icon.ts";
import { parameter, pathOf, setParameters } from "../router.ts";
import { client } from "../session.ts";
import { visible } from "../text.ts";

/** ms between two reads */
const every = 5000;
const step = 200;
const mostShown = 1000;
const mostHosts = 8;

export function EgressPage() {
  const [limit, setLimit] = useState(step);
  const refused = parameter("show") !== "all";
  const wanted = parameter("q").toLowerCase();
  const read = (signal: AbortSignal) => client.call("listEgress", { query: { refused, limit }, signal });
  const answer = useAnswer(`${refused} ${limit}`, read, undefined, Math.floor(now.value / every));
  const lines = answer.value?.events ?? [];
  const shown = wanted === "" ? lines : lines.filter((line) => textOf(line).includes(wanted));
  return html`<h1 class="unseen">Egress</h1>
    <div class="views"><nav aria-label="Views">
      ${[
        ["Refused", ""],
        ["All", "all"],
      ].map(
        ([
          title,
          show = "",
        ]) => html`<span class="view"><a href=${`${pathOf("egress")}${show === "" ? "" : `?show=${show}`}`}
          aria-current=${(show === "") === refused ? "true" : undefined}>${title}</a></span>`,
      )}
    </nav></div>
    <div class="query">
      <${Icon} name="search" />
      <input type="search" aria-label="Filter connections" data-key="/" spellcheck=${false} value=${parameter("q")}
        placeholder="host, sandbox, program or reason"
        onInput=${(event: InputEvent) => setParameters({ q: (event.target as HTMLInputElement).value })}
        onKeyDown=${(event: KeyboardEvent) => event.key === "Escape" && (event.target as HTMLElement).blur()} />
      <span class="res" role="status">${shown.length} of the newest ${lines.length}</span>
    </div>
    <${Unanswered} answer=${answer} />
    ${answer.value && lines.length === 0 && html`<p class="empty">${refused ? "No connection of a sandbox was refused." : "No sandbox has tried to reach the network yet."}</p>`}
    ${refused && shown.length > 0 && html`<${Hosts} lines=${shown} />`}
    ${
      shown.length > 0 &&
      html`<ul class=${refused ? "connections calm" : "connections"} aria-label="Connections" tabindex="0">
        ${shown.map((line) => html`<${Row} key=${`${line.session} ${line.id}`} line=${line} />`)}
        ${
          answer.value?.next &&
          limit < mostShown &&
          html`<li class="of"><button type="button" class="plain" onClick=${() => setLimit(Math.min(mostShown, limit + step))}>Older ones</button></li>`
        }
      </ul>`
    }`;
}

function Row({ line }: { line: ProjectLine }) {
  const path = `${pathOf("sandboxes", line.sandbox)}?tab=egress`;
  const from = html`<a href=${path}>${visible(line.sandbox)}</a> <span class="quiet" aria-hidden="true">→</span>`;
  const isRefused = verdictOf(line) === "refused";
  return html`<${Connection} line=${line} from=${from}>${
    isRefused && line.missing !== undefined && html`<a class="button small" href=${path}>Allow there…</a>`
  }<//>`;
}

/** the hosts that were refused most, each with how many sandboxes wanted it */
function Hosts({ lines }: { lines: readonly ProjectLine[] }) {
  const byHost = Map.groupBy(lines, (line) => placeOf(line));
  const hosts = [...byHost]
    .map(([host, all]) => ({
      host,
      sandboxes: new Set(all.map(({ sandbox }) => sandbox)).size,
      count: all.reduce((sum, { count }) => sum + (typeof count === "number" ? Math.max(1, count) : 1), 0),
    }))
    .toSorted((a, b) => b.count - a.count);
  return html`<dl class="figures hosts">${hosts.slice(0, mostHosts).map(
    ({
      host,
      sandboxes,
      count,
    }) => html`<div><dt><button type="button" class="plain" title="Show only these" onClick=${() => setParameters({ q: host })}>${host}</button></dt>
      <dd>${count}<small> of ${sandboxes} ${sandboxes === 1 ? "sandbox" : "sandboxes"}</small></dd></div>`,
  )}</dl>`;
}

function textOf(line: ProjectLine): string {
  const { sandbox, program, reason, protocol } = line;
  return [sandbox, placeOf(line), program, reason, protocol].join(" ").toLowerCase();
}
