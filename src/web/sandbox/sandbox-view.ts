/** The page of one sandbox: what it is, what can be done with it, its tape, and its tabs, of which two can be side by side. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type History, type HistoryAnswer, useHistory } from "../data/history.ts";
import { progress, reread, type Sandbox, sandbox } from "../data/live.ts";
import { cursor, neighbour } from "../data/selection.ts";
import { html } from "../html.ts";
import { Icon } from "../parts/icon.ts";
import { useKeys } from "../parts/keys.ts";
import { Lazy } from "../parts/lazy.ts";
import { go, parameter, pathOf, setParameters } from "../router.ts";
import { chosenStretch, Tape } from "../tape/tape.ts";
import { visible } from "../text.ts";
import { CommandsTab } from "./commands-tab.ts";
import { Header } from "./header.ts";

export interface TabProps {
  value: Sandbox;
  history: HistoryAnswer;
}

interface Tab {
  id: string;
  title: string;
  view: ComponentType<TabProps>;
  /** whether it shows only what the sandbox is now, whatever time somebody has chosen */
  isPresent?: boolean;
  /** how much is in it */
  count?: (value: Sandbox, history: History) => number;
  /** how much of it needs somebody */
  problems?: (history: History) => number;
}

const tabs: Tab[] = [
  {
    id: "terminal",
    isPresent: true,
    title: "Terminal",
    view: Lazy(async () => (await import("./terminal-tab.ts")).TerminalTab),
  },
  {
    id: "commands",
    title: "Commands",
    view: CommandsTab,
    count: (_, { commands, totals }) => Math.max(commands.length, totals.commands),
  },
  { id: "files", isPresent: true, title: "Files", view: Lazy(async () => (await import("./files-tab.ts")).FilesTab) },
  {
    id: "ports",
    isPresent: true,
    title: "Ports",
    view: Lazy(async () => (await import("./ports-tab.ts")).PortsTab),
    count: ({ ports }) => ports.filter(({ url }) => url !== null).length,
  },
  {
    id: "snapshots",
    title: "Snapshots",
    view: Lazy(async () => (await import("./snapshots-tab.ts")).SnapshotsTab),
    count: (_, { snapshots }) => snapshots.length,
  },
  {
    id: "egress",
    title: "Egress",
    view: Lazy(async () => (await import("./egress-tab.ts")).EgressTab),
    count: (_, { totals }) => totals.allowed + totals.refused,
    problems: ({ totals }) => totals.refused,
  },
  { id: "usage", title: "Usage", view: Lazy(async () => (await import("./usage-tab.ts")).UsageTab) },
  { id: "events", title: "Events", view: Lazy(async () => (await import("./events-tab.ts")).EventsTab) },
  { id: "use", isPresent: true, title: "Use it from", view: Lazy(async () => (await import("./use-tab.ts")).UseTab) },
];

export function SandboxView({ name }: { name: string }) {
  const value = sandbox(name);
  const [isMissing, setMissing] = useState(false);
  useEffect(() => {
    cursor.value = name;
    void reread(name).then(() => setMissing(true));
  }, [name]);
  if (value) return html`<${Shown} value=${value} />`;
  const isKnownMissing = isMissing && progress.value === "complete";
  return isKnownMissing
    ? html`<h1 class="unseen">${visible(name)}</h1><p class="empty">There is no sandbox “${visible(name)}” in this project. It may belong to another team, or somebody deleted it. <a href=${pathOf("sandboxes")}>All sandboxes</a></p>`
    : html`<p class="waiting" role="status">Loading …</p>`;
}

function Shown({ value }: { value: Sandbox }) {
  const history = useHistory(value);
  const wanted = parameter("tab");
  const tab = tabs.find(({ id }) => id === wanted) ?? tabs[1];
  const second = tabs.find(({ id }) => id === parameter("beside"));
  // On a phone, the tabs are wider than the window, and more so with their counts.
  useEffect(
    () => document.getElementById(`tab-${tab?.id}`)?.scrollIntoView({ block: "nearest", inline: "center" }),
    [tab, history.value === undefined],
  );
  const step = (by: number) => () => {
    const next = neighbour(value.name, by);
    if (next !== undefined && next !== value.name) go(`${pathOf("sandboxes", next)}${tab ? `?tab=${tab.id}` : ""}`);
  };
  const split = () => setParameters({ beside: second ? "" : tab?.id === "egress" ? "commands" : "egress" });
  useKeys({ "[": step(-1), "]": step(1), t: () => setParameters({ tab: "terminal" }) });
  return html`<${Header} value=${value} />
    <${Tape} value=${value} history=${history} />
    <div class="tabbar">
      <div class="tabs" role="tablist" aria-label="About this sandbox" onKeyDown=${moveFocus}>
        ${tabs.map(
          (each, at) => html`<button
            type="button" role="tab" id=${`tab-${each.id}`} aria-controls="tab" data-key=${String(at + 1)}
            tabindex=${each.id === tab?.id ? 0 : -1}
            aria-selected=${each.id === tab?.id ? "true" : "false"} onClick=${() => setParameters({ tab: each.id })}
          >${each.title}<${Count} tab=${each} value=${value} history=${history.value} /></button>`,
        )}
      </div>
      <button type="button" class="plain splitter" data-key="\\" aria-pressed=${second ? "true" : "false"} onClick=${split}>
        <${Icon} name="split" /> Split <kbd>\\</kbd>
      </button>
    </div>
    <div class=${second ? "beside two" : "beside"}>
      <div class="tab" role="tabpanel" id="tab" aria-labelledby=${`tab-${tab?.id}`}>
        ${tab && html`<${OnlyNow} tab=${tab} /><${tab.view} value=${value} history=${history} key=${`${tab.id} ${value.session.id}`} />`}
      </div>
      ${
        second &&
        html`<section class="tab second" aria-label=${`${second.title}, second pane`}>
          <div class="ph"><label class="unseen" for="second">Second pane</label>
            <select id="second" value=${second.id} onChange=${(event: Event) => setParameters({ beside: (event.target as HTMLSelectElement).value })}>
              ${tabs.filter(({ id }) => id !== tab?.id && id !== "terminal").map(({ id, title }) => html`<option value=${id}>${title}</option>`)}
            </select>
            <button type="button" class="plain gap" onClick=${split}>Close</button></div>
          <${OnlyNow} tab=${second} /><${second.view} value=${value} history=${history} key=${`${second.id} ${value.session.id}`} />
        </section>`
      }
    </div>`;
}

/** says that a tab does not show the chosen time */
function OnlyNow({ tab: { isPresent } }: { tab: Tab }) {
  if (!isPresent || !chosenStretch()) return null;
  return html`<p class="note only-now">This tab shows the sandbox as it is now, not the chosen time.</p>`;
}

function Count({ tab, value, history }: { tab: Tab; value: Sandbox; history: History | undefined }) {
  if (!history) return null;
  const [count, problems] = [tab.count?.(value, history) ?? 0, tab.problems?.(history) ?? 0];
  return html`${count > 0 && html` <em>${count}</em>`}${problems > 0 && html` <em class="fail">${problems}<span class="unseen"> refused</span></em>`}`;
}

/** arrows move between tabs, as in every list of tabs */
function moveFocus(event: KeyboardEvent): void {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (step === undefined || !(event.currentTarget instanceof HTMLElement)) return;
  const all = [...event.currentTarget.querySelectorAll<HTMLElement>('[role="tab"]')];
  const at = all.indexOf(document.activeElement as HTMLElement);
  const next = all[(at + step + all.length) % all.length];
  next?.focus();
  next?.click();
  event.preventDefault();
}
