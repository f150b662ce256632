/** The list of sandboxes, and the page of one. */

import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { activityOf, look, trafficOf, watchActivity } from "../data/activity.ts";
import { isPhone, shownColumns } from "../data/column-choice.ts";
import { type ColumnId, leastWidth } from "../data/columns.ts";
import { everything, now, progress, type Sandbox, sandbox } from "../data/live.ts";
import { sparkOf, sparkSlots } from "../data/processor-samples.ts";
import { tagsOf } from "../data/query.ts";
import { chosen, cursor, found, neighbour, type SortKey, selected, sortOf, toggle } from "../data/selection.ts";
import { addView, removeView, views } from "../data/views.ts";
import { refusals } from "../egress/refusals.ts";
import { html } from "../html.ts";
import { ActButton } from "../parts/act-button.ts";
import { fork, stop } from "../parts/acts.ts";
import { Exit } from "../parts/exit.ts";
import { Icon } from "../parts/icon.ts";
import { useKeys } from "../parts/keys.ts";
import { Lazy } from "../parts/lazy.ts";
import { Bar, Ends, Spark } from "../parts/meters.ts";
import { type Head, Rows } from "../parts/rows.ts";
import { StateMark } from "../parts/state.ts";
import { go, parameter, pathOf, setParameters } from "../router.ts";
import { whyReadOnly } from "../session.ts";
import { commandLine, date, memory, size, span, visible } from "../text.ts";

const BulkBar = Lazy(async () => (await import("./bulk-bar.ts")).BulkBar, true);
const ColumnsMenu = Lazy(async () => (await import("../parts/columns-menu.ts")).ColumnsMenu);
const FirstSandbox = Lazy(async () => (await import("../parts/first-sandbox.ts")).FirstSandbox);
const NewSandbox = Lazy(async () => (await import("../parts/new-sandbox.ts")).NewSandbox, true);
const SandboxView = Lazy(async () => (await import("../sandbox/sandbox-view.ts")).SandboxView);

export function SandboxesPage({ name }: { name?: string }) {
  return name === undefined ? html`<${List} />` : html`<${SandboxView} name=${name} key=${name} />`;
}

/** rows as they were when the pointer came, so that none moves under it */
const held = signal<readonly Sandbox[] | undefined>(undefined);

function List() {
  const [isAsking, setAsking] = useState(false);
  const query = parameter("q");
  const isEmpty = everything.value.length === 0 && progress.value === "complete";
  const shown = held.value ?? found.value;
  // People type as soon as they have asked for it.
  useEffect(NewSandbox.prepare, []);
  useEffect(() => watchActivity(() => sortOf(parameter("sort")).key === "net"), []);
  const close = () => setAsking(false);
  const move = (step: number) => () => {
    cursor.value = neighbour(cursor.value, step) ?? "";
  };
  const atCursor = (work: (name: string) => void) => () => cursor.value !== "" && work(cursor.value);
  const forEach = (work: (name: string) => Promise<unknown>) => {
    const names = selected.value.length > 0 ? selected.value : cursor.value === "" ? [] : [cursor.value];
    chosen.value = new Set();
    for (const name of names) void work(name);
  };
  useKeys({
    j: move(1),
    k: move(-1),
    x: atCursor(toggle),
    Enter: atCursor((name) => go(pathOf("sandboxes", name))),
    t: atCursor((name) => go(`${pathOf("sandboxes", name)}?tab=terminal`)),
    ...(whyReadOnly() === undefined && { s: () => forEach(stop), f: atCursor((name) => void fork(name)) }),
    Escape: () => {
      chosen.value = new Set();
    },
  });
  return html`<h1 class="unseen">Sandboxes</h1>
    <${Views} query=${query} create=${() => setAsking(true)} />
    <div class="query">
      <${Icon} name="search" />
      <input
        type="search" aria-label="Filter sandboxes" data-key="/" spellcheck=${false}
        placeholder="state:running tag:suite=api image:node created:<6h -name" value=${query}
        onInput=${(event: InputEvent) => setParameters({ q: (event.target as HTMLInputElement).value })}
        onKeyDown=${(event: KeyboardEvent) => event.key === "Escape" && (event.target as HTMLElement).blur()}
      />
      ${query !== "" && !views.value.some((each) => each.query === query) && html`<button type="button" class="plain" onClick=${() => addView(query)}>Save view</button>`}
      <${News} shown=${shown} />
      <span class="res" role="status">${found.value.length} of ${everything.value.length}</span>
    </div>
    ${
      isEmpty
        ? html`<${FirstSandbox} />`
        : html`<${Rows} kind="list" label="Sandboxes" heads=${heads()} items=${shown}
            least=${isPhone.value ? 0 : leastWidth(shownColumns.value)} keyOf=${(each: Sandbox) => each.name}
            at=${cursor.value === "" ? undefined : shown.findIndex(({ name }) => name === cursor.value)}
            hovered=${(isHovered: boolean) => {
              held.value = isHovered ? found.value : undefined;
            }}
            seen=${(rows: readonly Sandbox[]) => look(rows.map(({ name }) => name))}
            row=${(each: Sandbox) => html`<${Row} name=${each.name} />`}
            none=${progress.value === "complete" ? "No sandbox matches the filter." : undefined}
          />`
    }
    ${selected.value.length > 0 && html`<${BulkBar} />`}
    ${isAsking && html`<${NewSandbox} close=${close} />`}`;
}

function Views({ query, create }: { query: string; create: () => void }) {
  return html`<div class="views">
    <nav aria-label="Views">${views.value.map(
      ({ title, query: each, count, isOwn }) => html`<span class="view"><a
        href=${`${pathOf("sandboxes")}${each === "" ? "" : `?q=${encodeURIComponent(each)}`}`}
        aria-current=${each === query ? "true" : undefined}
      >${visible(title)} <em>${count}</em></a>${
        isOwn &&
        html`<button type="button" class="plain" aria-label=${`Forget the view ${visible(title)}`} onClick=${() => removeView(each)}>×</button>`
      }</span>`,
    )}</nav>
    <button type="button" popovertarget="columns" data-key="c"><${Icon} name="columns" /> <span>Columns</span> <kbd>c</kbd></button>
    <div id="columns" popover="auto" role="dialog" aria-label="Columns"><${ColumnsMenu} /></div>
    <${ActButton} kind="primary" hotkey="n" act=${create}><${Icon} name="plus" /> <span>New sandbox</span> <kbd>n</kbd><//>
  </div>`;
}

/** how many rows wait until the pointer leaves, or somebody asks for them */
function News({ shown }: { shown: readonly Sandbox[] }) {
  if (held.value === undefined) return null;
  const present = new Set(shown.map(({ name }) => name));
  const count = found.value.filter(({ name }) => !present.has(name)).length;
  const apply = () => {
    held.value = found.value;
  };
  return count > 0 && html`<button type="button" class="plain news" onClick=${apply}>${count} new</button>`;
}

function heads(): Head[] {
  const now_ = sortOf(parameter("sort"));
  const by = (key: SortKey): Pick<Head, "sort" | "sorted"> => {
    const isSorted = now_.key === key;
    return {
      sort: () => setParameters({ sort: isSorted && !now_.isTurned ? `-${key}` : key }),
      sorted: isSorted ? (now_.isTurned ? "descending" : "ascending") : undefined,
    };
  };
  return [
    { title: "Select", column: "c-check", isUnseen: true },
    { title: "Sandbox", column: "c-name", ...by("name") },
    ...shownColumns.value.map(({ id, title, sort, isNumber }) => ({
      title,
      column: isNumber ? `c-${id} num` : `c-${id}`,
      ...(sort && by(sort)),
    })),
  ];
}

/** what gives way to the sentence of a sandbox that failed */
const replaced: Record<"columns" | "lines", readonly ColumnId[]> = {
  columns: ["ends", "cpu", "memory"],
  lines: ["ends", "command"],
};

function Row({ name }: { name: string }) {
  const value = sandbox(name);
  if (!value) return null;
  const { state, session } = value;
  const name_ = visible(name);
  const isChosen = chosen.value.has(name);
  const isFailed = (state === "failed" || state === "aborted") && session.endReason !== null;
  const classes = [isChosen ? "chosen" : "", cursor.value === name ? "cursor" : ""].join(" ").trim();
  const shown = shownColumns.value.map(({ id }) => id);
  const gone = isFailed ? shown.filter((id) => replaced[isPhone.value ? "lines" : "columns"].includes(id)) : [];
  return html`<tr data-row class=${classes}>
    <td class="c-check">
      <input type="checkbox" aria-label=${`Select ${name_}`} checked=${isChosen} onChange=${() => toggle(name)} />
    </td>
    <th scope="row" class="c-name">
      <${StateMark} state=${state} name=${name} />
      <a href=${pathOf("sandboxes", name)}>${name_}</a>
      ${tagsOf(value.tags).map((tag) => html`<span class="tag">${visible(tag)}</span>`)}
    </th>
    ${shown.map((id) => {
      if (id === gone[0])
        return html`<td class="c-why" colspan=${gone.length}>${visible(session.endReason ?? "")}</td>`;
      return !gone.includes(id) && html`<${cells[id]} value=${value} />`;
    })}
  </tr>`;
}

const cells: Record<ColumnId, ComponentType<{ value: Sandbox }>> = {
  image: ({ value: { image, runtime } }) => html`<td class="c-image">${visible(image ?? runtime ?? "default")}</td>`,
  ends: ({ value }) => html`<td class="c-ends"><${Ends} value=${value} /></td>`,
  cpu: Cpu,
  memory: Memory,
  net: Net,
  refused: ({ value: { name } }) => html`<td class="c-refused num"><${Refused} name=${name} /></td>`,
  command: ({ value: { name } }) => html`<td class="c-command"><${LastCommand} name=${name} /></td>`,
  made: ({ value: { madeBy } }) => html`<td class="c-made quiet">${visible(madeBy.wire ?? "")}</td>`,
  age: ({ value: { createdAt } }) =>
    html`<td class="c-age num" title=${date(createdAt)}>${span(now.value - createdAt)}</td>`,
};

function Cpu({ value: { name, state, vcpus } }: { value: Sandbox }) {
  const { load = null, samples = [] } = activityOf(name) ?? {};
  if (load === null || state !== "running") return html`<td class="c-cpu"></td>`;
  return html`<td class="c-cpu" title=${`${load.processors.toFixed(2)} of ${vcpus} vCPU`}>
    <span class="cell2"><span>${load.processors.toFixed(1)}</span><${Spark} values=${sparkOf(samples, now.value)} most=${vcpus} slots=${sparkSlots} /></span></td>`;
}

function Net({ value }: { value: Sandbox }) {
  const { bytesIn, bytesOut } = trafficOf(value);
  return html`<td class="c-net num">${size(bytesIn)} / ${size(bytesOut)}</td>`;
}

function Memory({ value: { name, state, memory: limit } }: { value: Sandbox }) {
  const load = activityOf(name)?.load ?? null;
  const title = `of ${memory(limit)}`;
  if (load === null || state !== "running") return html`<td class="c-memory quiet" title=${title}>—</td>`;
  const part = load.memory / (limit * 2 ** 20);
  return html`<td class="c-memory" title=${title}>
    <span class="cell2"><span>${size(load.memory)}</span><${Bar} part=${part} isLow=${part > 0.85} /></span></td>`;
}

/** how often it was refused lately, with the way to the connections */
function Refused({ name }: { name: string }) {
  const count = refusals.value.get(name) ?? 0;
  if (count === 0) return html`<span class="quiet" aria-label="none">·</span>`;
  return html`<a class="fail" href=${`${pathOf("sandboxes", name)}?tab=egress`}>${count}<span class="unseen"> refused connections</span></a>`;
}

function LastCommand({ name }: { name: string }) {
  const command = activityOf(name)?.command;
  if (!command) return html`<span class="quiet">—</span>`;
  return html`<span class="mono"><${Exit} exitCode=${command.exitCode} /> ${commandLine(command.command, command.args)}</span>`;
}
