/** The first page: what runs and how much of it is allowed, what needs somebody, and what happened last. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { useAnswer } from "../data/answer.ts";
import { eventWords } from "../data/event-words.ts";
import { type Change, changes, everything, now, progress, type Sandbox } from "../data/live.ts";
import { refusals } from "../data/refusals.ts";
import { html } from "../html.ts";
import { extend } from "../parts/acts.ts";
import { FirstSandbox } from "../parts/first-sandbox.ts";
import { Icon } from "../parts/icon.ts";
import { Bar } from "../parts/meters.ts";
import { NewSandbox } from "../parts/new-sandbox.ts";
import { StateMark } from "../parts/state.ts";
import { pathOf } from "../router.ts";
import { client, isAdmin } from "../session.ts";
import { clock, date, memory, size, span, visible } from "../text.ts";
import { sandboxOf } from "./events.ts";
import { Ends } from "./sandboxes.ts";

const mostRows = 8;
/** a session that ends within this time is worth a look, in ms */
const soon = 15 * 60_000;
const day = 86_400_000;
const capacityEvery = 10_000;

export function OverviewPage() {
  const [isAsking, setAsking] = useState(false);
  const close = () => setAsking(false);
  const all = everything.value;
  const isEmpty = all.length === 0 && progress.value === "complete";
  return html`<div class="overview">
    <div class="head"><h1>Overview</h1>
      <button type="button" class="primary gap" data-key="n" onClick=${() => setAsking(true)}>
        <${Icon} name="plus" /> New sandbox <kbd>n</kbd>
      </button></div>
    <${Amounts} />
    ${isEmpty ? html`<${FirstSandbox} />` : html`<div class="sections"><${Attention} all=${all} /><${Refused} /><${Latest} /><${Newest} all=${all} /></div>`}
    ${isAsking && html`<${NewSandbox} close=${close} />`}
  </div>`;
}

interface Amount {
  title: string;
  used: string;
  limit?: string;
  /** from 0 to 1 */
  part?: number;
}

/** what the team uses of its quota, and what the host has, as far as this key may know it */
function Amounts() {
  const quota = useAnswer(
    "quota",
    (signal) => client.call("getQuota", { signal }),
    ({ type }) => type.startsWith("session."),
  ).value;
  const turn = Math.floor(now.value / capacityEvery);
  const readHost = async (signal: AbortSignal) => (isAdmin() ? client.call("getCapacity", { signal }) : undefined);
  const host = useAnswer("host", readHost, undefined, turn).value;
  const amounts: Amount[] = [
    ...(quota
      ? [
          limited("running", quota.use.sandboxes, quota.limits.sandboxes, String),
          limited("vCPUs", quota.use.vcpus, quota.limits.vcpus, String),
          limited("memory", quota.use.memory, quota.limits.memory, memory),
          limited("made in a minute", quota.use.createsPerMinute, quota.limits.createsPerMinute, String),
        ]
      : []),
    ...(host
      ? [
          ...(host.disk?.places ?? []).map(({ place, free }) => ({
            title: place === "disk" ? "free on the disk" : "free in the store",
            used: size(free),
          })),
          { title: "machines in the pool", used: String(host.machines.hot + host.machines.warm) },
        ]
      : []),
  ];
  return html`<dl class="figures">${amounts.map(
    ({ title, used, limit, part }) => html`<div><dt>${title}</dt>
      <dd>${used}${limit !== undefined && html`<small> / ${limit}</small>`}</dd>
      ${part !== undefined && html`<${Bar} part=${part} isLow=${part > 0.85} />`}</div>`,
  )}</dl>`;
}

function limited(title: string, used: number, limit: number | null, words: (value: number) => string): Amount {
  if (limit === null) return { title, used: words(used) };
  return { title, used: words(used), limit: words(limit), part: used / Math.max(1, limit) };
}

function Attention({ all }: { all: readonly Sandbox[] }) {
  const failed = all
    .filter(({ state, stateChangedAt }) => isFailed(state) && now.value - stateChangedAt < day)
    .toSorted((a, b) => b.stateChangedAt - a.stateChangedAt);
  const ending = all
    .filter(
      ({ state, session }) => state === "running" && (session.expiresAt ?? Number.POSITIVE_INFINITY) - now.value < soon,
    )
    .toSorted((a, b) => (a.session.expiresAt ?? 0) - (b.session.expiresAt ?? 0));
  return html`<${Section} title="Failed today" count=${failed.length} to=${`${pathOf("sandboxes")}?q=state:failed,aborted`} none="No sandbox has failed in the last 24 hours.">
      ${failed.slice(0, mostRows).map(
        (each) => html`<li key=${each.name}>
          <${StateMark} state=${each.state} /><a href=${`${pathOf("sandboxes", each.name)}?tab=commands`}>${visible(each.name)}</a>
          <span class="why cut">${visible(each.session.endReason ?? each.state)}</span>
          <span class="num" title=${date(each.stateChangedAt)}>${span(now.value - each.stateChangedAt)} ago</span>
        </li>`,
      )}
    <//>
    <${Section} title="Ending soon" count=${ending.length} none="No session ends within 15 minutes.">
      ${ending.slice(0, mostRows).map(
        (each) => html`<li key=${each.name}>
          <${StateMark} state=${each.state} /><a href=${pathOf("sandboxes", each.name)}>${visible(each.name)}</a>
          <span class="cut"><${Ends} value=${each} /></span>
          <button type="button" class="small" onClick=${() => void extend(each.name, each.session.id, soon)}>15 min more</button>
        </li>`,
      )}
    <//>`;
}

/** sandboxes that wanted what their policies do not allow, most refused first */
function Refused() {
  const found = [...refusals.value].toSorted(([, a], [, b]) => b - a);
  return html`<${Section} title="Refused egress" count=${found.length} to=${pathOf("egress")} none="No connection was refused lately.">
    ${found.slice(0, mostRows).map(
      ([name, count]) => html`<li key=${name}>
        <span class="fail"><${Icon} name="refused" /></span><a href=${`${pathOf("sandboxes", name)}?tab=egress`}>${visible(name)}</a>
        <span></span><span class="num">${count} refused</span>
      </li>`,
    )}
  <//>`;
}

function Newest({ all }: { all: readonly Sandbox[] }) {
  return html`<${Section} title="Newest sandboxes" count=${all.length} to=${pathOf("sandboxes")} none="">
    ${all.slice(0, mostRows).map(
      (each) => html`<li key=${each.name}>
        <${StateMark} state=${each.state} /><a href=${pathOf("sandboxes", each.name)}>${visible(each.name)}</a>
        <span class="cut quiet">${visible(each.image ?? each.runtime ?? "default image")}</span>
        <span class="num" title=${date(each.createdAt)}>${span(now.value - each.createdAt)}</span>
      </li>`,
    )}
  <//>`;
}

function Latest() {
  const shown = changes.value.slice(0, mostRows);
  return html`<${Section} title="Latest events" to=${pathOf("events")} none="Nothing has happened since the daemon started.">
    ${shown.map((each: Change) => {
      return html`<li key=${each.cursor}>
        <span class="num">${clock(each.at)}</span><b>${visible(each.type)}</b>
        <span class="cut quiet">${visible(eventLine(each))}</span><span></span>
      </li>`;
    })}
  <//>`;
}

function eventLine(event: Change): string {
  const sandbox = sandboxOf(event);
  const what = eventWords(event);
  if (sandbox === undefined || what === "") return sandbox ?? what;
  return `${sandbox}: ${what}`;
}

interface SectionProps {
  title: string;
  count?: number;
  /** where the rest of it is */
  to?: string;
  /** the sentence for an empty section */
  none: string;
  children: ComponentChildren[];
}

function Section({ title, count, to, none, children }: SectionProps) {
  const isEmpty = children.flat().length === 0;
  return html`<section>
    <h2>${to === undefined ? title : html`<a href=${to}>${title}</a>`}${count !== undefined && count > 0 && html` <em>${count}</em>`}</h2>
    ${isEmpty ? html`<p class="quiet">${none}</p>` : html`<ul>${children}</ul>`}
  </section>`;
}

function isFailed(state: Sandbox["state"]): boolean {
  return state === "failed" || state === "aborted";
}
