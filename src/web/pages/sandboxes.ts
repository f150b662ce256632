/** The list of sandboxes, and the page of one. */

import { useState } from "preact/hooks";
import { all, now, progress, type Sandbox, sandbox } from "../data/live.ts";
import { filterOf, tagsOf } from "../data/query.ts";
import { html } from "../html.ts";
import { copy, remove, stop } from "../parts/acts.ts";
import { Question } from "../parts/dialog.ts";
import { Lazy } from "../parts/lazy.ts";
import { Bar } from "../parts/meters.ts";
import { NewSandbox } from "../parts/new-sandbox.ts";
import { Rows } from "../parts/rows.ts";
import { StateMark } from "../parts/state.ts";
import { parameter, pathOf, setParameters } from "../router.ts";
import { date, memory, size, span, visible } from "../text.ts";

const SandboxView = Lazy(async () => (await import("../sandbox/sandbox-view.ts")).SandboxView);

export function SandboxesPage({ name }: { name?: string }) {
  return name === undefined ? html`<${List} />` : html`<${SandboxView} name=${name} key=${name} />`;
}

const views = [
  { title: "All", query: "" },
  { title: "Running", query: "state:running" },
  { title: "Failed", query: "state:failed,aborted" },
  { title: "New in 6 h", query: "created:<6h" },
];

function List() {
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [asking, setAsking] = useState<"delete" | "new" | undefined>(undefined);
  const query = parameter("q");
  const everything = all();
  const found = query === "" ? everything : everything.filter(filterOf(query, now.value));
  const selected = [...chosen].filter((each) => sandbox(each) !== undefined);
  const close = () => setAsking(undefined);
  const toggle = (name: string) => {
    const next = new Set(chosen);
    if (!next.delete(name)) next.add(name);
    setChosen(next);
  };
  const forEachSelected = (work: (name: string) => Promise<unknown>) => {
    setChosen(new Set());
    for (const name of selected) void work(name);
  };
  return html`<h1 class="unseen">Sandboxes</h1>
    <div class="views">
      ${views.map(
        ({ title, query: each }) => html`<a
          href=${`${pathOf("sandboxes")}${each === "" ? "" : `?q=${encodeURIComponent(each)}`}`}
          aria-current=${each === query ? "true" : undefined}
        >${title} <em>${everything.filter(filterOf(each, now.value)).length}</em></a>`,
      )}
      <button type="button" class="primary gap" data-key="n" onClick=${() => setAsking("new")}>
        New sandbox <kbd>n</kbd>
      </button>
    </div>
    <div class="query">
      <input
        type="search" aria-label="Filter sandboxes" data-key="/" spellcheck=${false}
        placeholder="state:running tag:suite=api image:node created:<6h -name" value=${query}
        onInput=${(event: InputEvent) => setParameters({ q: (event.target as HTMLInputElement).value })}
      />
      <span class="res" role="status">${found.length} of ${everything.length}</span>
    </div>
    ${
      everything.length === 0 && progress.value === "complete"
        ? html`<${Empty} create=${() => setAsking("new")} />`
        : html`<${Rows} label="Sandboxes" heads=${heads} items=${found} keyOf=${(each: Sandbox) => each.name}
            row=${(each: Sandbox) => html`<${Row} value=${each} isChosen=${chosen.has(each.name)} toggle=${toggle} />`}
          />`
    }
    ${
      selected.length > 0 &&
      html`<div class="bulk" role="toolbar" aria-label="Selected sandboxes">
        <b>${selected.length} selected</b>
        <button type="button" onClick=${() => forEachSelected(stop)}>Stop, keep files</button>
        <button type="button" class="danger" onClick=${() => setAsking("delete")}>Delete…</button>
        <button type="button" onClick=${() => setChosen(new Set())}>Clear</button>
      </div>`
    }
    ${asking === "new" && html`<${NewSandbox} close=${close} />`}
    ${
      asking === "delete" &&
      html`<${Question}
        title="Delete sandboxes" verb=${`Delete ${selected.length}`} close=${close}
        text=${`${selected.length} sandboxes lose their files and snapshots: ${selected.map(visible).join(", ")}`}
        act=${() => forEachSelected(remove)}
      />`
    }`;
}

const heads = [
  { title: "Select", column: "c-check", isUnseen: true },
  { title: "Sandbox", column: "c-name" },
  { title: "Image", column: "c-image" },
  { title: "Ends in", column: "c-ends" },
  { title: "Size", column: "c-size" },
  { title: "Net in / out", column: "c-net num" },
  { title: "Age", column: "c-age num" },
];

interface RowProps {
  value: Sandbox;
  isChosen: boolean;
  toggle: (name: string) => void;
}

function Row({ value, isChosen, toggle }: RowProps) {
  const { name, state, image, runtime, session, vcpus, totals, createdAt } = value;
  const name_ = visible(name);
  const failed = (state === "failed" || state === "aborted") && session.endReason !== null;
  return html`<tr data-row class=${isChosen ? "chosen" : ""}>
    <td class="c-check">
      <input type="checkbox" aria-label=${`Select ${name_}`} checked=${isChosen} onChange=${() => toggle(name)} />
    </td>
    <th scope="row" class="c-name">
      <${StateMark} state=${state} />
      <a href=${pathOf("sandboxes", name)}>${name_}</a>
      ${tagsOf(value.tags).map((tag) => html`<span class="tag">${visible(tag)}</span>`)}
    </th>
    <td class="c-image">${visible(image ?? runtime ?? "default")}</td>
    ${
      failed
        ? html`<td class="c-why" colspan="2">${visible(session.endReason ?? "")}</td>`
        : html`<td class="c-ends"><${Ends} value=${value} /></td>
            <td class="c-size">${vcpus} vCPU · ${memory(value.memory)}</td>`
    }
    <td class="c-net num">${size(totals.bytesIn)} / ${size(totals.bytesOut)}</td>
    <td class="c-age num" title=${date(createdAt)}>${span(now.value - createdAt)}</td>
  </tr>`;
}

/** the time that is left, with a bar where there is a limit */
export function Ends({ value: { state, session, persistent } }: { value: Sandbox }) {
  if (state !== "running" || session.expiresAt === null) {
    return html`<span class="quiet">${state === "stopped" ? (persistent ? "kept" : "ended") : state}</span>`;
  }
  const left = session.expiresAt - now.value;
  return html`<span class="cell2"><span>${span(left)}</span><${Bar} part=${left / session.timeout} isLow=${left < 60_000} /></span>`;
}

function Empty({ create }: { create: () => void }) {
  const lines = [
    [
      "HTTP",
      `curl -X POST -H "Authorization: Bearer $SANDKEEP_API_KEY" ${location.origin}/sandkeep/v1/sandboxes -d '{}'`,
    ],
  ];
  return html`<div class="empty">
    <p>There is no sandbox yet. This page fills as soon as one is made.</p>
    ${lines.map(
      ([title = "", text = ""]) => html`<div class="way"><span>${title}</span><code>${text}</code>
        <button type="button" onClick=${() => void copy(text)}>Copy</button></div>`,
    )}
    <button type="button" onClick=${create}>New sandbox</button>
  </div>`;
}
