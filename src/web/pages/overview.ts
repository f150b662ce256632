/** The first page: what runs and how much of it is allowed, what needs somebody, and what happened last. */

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Output } from "../../client/types.ts";
import { useAnswer } from "../data/answer.ts";
import { busyProcessors, capacity } from "../data/capacity.ts";
import { examine, wrong } from "../data/diagnosis.ts";
import { eventWords } from "../data/event-words.ts";
import { type Change, changes, everything, now, progress, type Sandbox } from "../data/live.ts";
import { sandboxOf } from "../data/owners.ts";
import { refusals } from "../egress/refusals.ts";
import { html } from "../html.ts";
import { ActButton } from "../parts/act-button.ts";
import { extend } from "../parts/acts.ts";
import { FirstSandbox } from "../parts/first-sandbox.ts";
import { Icon } from "../parts/icon.ts";
import { Lazy, usePrepared } from "../parts/lazy.ts";
import { Bar, Ends, Spark } from "../parts/meters.ts";
import { StateMark } from "../parts/state.ts";
import { pathOf } from "../router.ts";
import { client } from "../session.ts";
import { clock, commandLine, counted, date, memory, size, span, took, visible } from "../text.ts";
import { type RecentBoots, recentBoots } from "./recent-boots.ts";

type Command = NonNullable<Output<"listActivity">["activity"][number]["command"]>;

const mostRows = 8;
const mostSessions = 300;
/** ms between two reads of the newest sessions */
const every = 15_000;
/** a session that ends within this time is worth a look, in ms */
const soon = 15 * 60_000;
const day = 86_400_000;

const NewSandbox = Lazy(async () => (await import("../parts/new-sandbox.ts")).NewSandbox, true);

export function OverviewPage() {
  usePrepared(NewSandbox);
  const [isAsking, setAsking] = useState(false);
  const close = () => setAsking(false);
  const all = everything.value;
  const isEmpty = all.length === 0 && progress.value === "complete";
  return html`<div class="overview">
    <div class="head"><h1>Overview</h1>
      <${ActButton} kind="primary gap" hotkey="n" act=${() => setAsking(true)}><${Icon} name="plus" /> New sandbox <kbd>n</kbd><//></div>
    <${Quota} /><${Host} />
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
  /** whether little is left; default from 85 % on */
  isLow?: boolean;
  /** a word on what the number does not say */
  more?: string;
  /** how it was lately, oldest first, and the most that it can be */
  lately?: { values: readonly number[]; most: number };
}

/** what the team uses of its quota */
function Quota() {
  const { value } = useAnswer(
    "quota",
    (signal) => client.call("getQuota", { signal }),
    ({ type }) => type.startsWith("session."),
  );
  const recent = useAnswer("boots", readBoots, undefined, Math.floor(now.value / every)).value;
  if (!value) return null;
  const { use, limits } = value;
  const amounts = [
    {
      ...limited("running", use.sandboxes, limits.sandboxes, String),
      ...(recent && { lately: lateOf(recent.running) }),
    },
    ...(recent ? [bootsOf(recent)] : []),
    limited("vCPUs", use.vcpus, limits.vcpus, String),
    limited("memory", use.memory, limits.memory, memory),
    limited("made in a minute", use.createsPerMinute, limits.createsPerMinute, String),
  ];
  return html`<${Amounts} amounts=${amounts} />`;
}

/** the newest sessions say what happened in the last hour, if there were not too many */
async function readBoots(signal: AbortSignal): Promise<RecentBoots> {
  const { sessions, next } = await client.call("listSessions", { query: { limit: mostSessions }, signal });
  return recentBoots(sessions, next === null, Date.now());
}

function lateOf(values: readonly number[]): NonNullable<Amount["lately"]> {
  return { values, most: Math.max(1, ...values) };
}

function bootsOf({ boots, p50 }: RecentBoots): Amount {
  const sum = boots.reduce((total, count) => total + count, 0);
  return {
    title: boots.length < 60 ? `boots in ${counted(boots.length, "minute")}` : "boots in the last hour",
    used: String(sum),
    ...(p50 !== undefined && { more: `p50 ${took(p50)}` }),
    lately: lateOf(boots),
  };
}

/** what the whole host uses, with the programs of everybody, if this key may know it */
function Host() {
  if (!capacity.value) return null;
  const { machines, processors, memory: ofHost, disk } = capacity.value;
  const { busy, count, load } = processors;
  const amounts: Amount[] = [
    {
      ...limited("host processors", busy, count, (value) => String(Number(value.toFixed(1)))),
      more: `load ${load.toFixed(1)}`,
      lately: { values: busyProcessors.value, most: count },
    },
    limited("host memory", ofHost.total - ofHost.available, ofHost.total, (bytes) =>
      memory(Math.round(bytes / 2 ** 20)),
    ),
    ...(disk?.places ?? []).map(({ place, total, free, reserve }) => ({
      ...limited(place === "disk" ? "host disk" : "store", total - free, total, size),
      // Sandboxes cannot grow any more when only the reserve is left.
      isLow: free < 2 * reserve,
    })),
    { title: "machines in the pool", used: String(machines.hot + machines.warm) },
  ];
  return html`<${Amounts} amounts=${amounts} />`;
}

function Amounts({ amounts }: { amounts: readonly Amount[] }) {
  return html`<dl class="figures">${amounts.map(
    ({ title, used, limit, part = 0, isLow = part > 0.85, more, lately }) => html`<div>
      <dt>${title}${lately && html`<${Spark} ...${lately} />`}</dt>
      <dd>${used}${limit !== undefined && html`<small> / ${limit}</small>`}${more !== undefined && html`<small> · ${more}</small>`}</dd>
      ${limit !== undefined && html`<${Bar} part=${part} isLow=${isLow} />`}</div>`,
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
  const shown = failed.slice(0, mostRows);
  const sandbox = shown.map(({ name }) => name);
  const { value } = useAnswer(sandbox.join(" "), async (signal) =>
    sandbox.length === 0 ? [] : (await client.call("listActivity", { query: { sandbox }, signal })).activity,
  );
  const ending = all
    .filter(
      ({ state, session }) => state === "running" && (session.expiresAt ?? Number.POSITIVE_INFINITY) - now.value < soon,
    )
    .toSorted((a, b) => (a.session.expiresAt ?? 0) - (b.session.expiresAt ?? 0));
  return html`<${Section} title="Failed today" count=${failed.length} to=${`${pathOf("sandboxes")}?q=state:failed,aborted`} none="No sandbox has failed in the last 24 hours.">
      ${shown.map((each) => {
        const told = value?.find((one) => one.sandbox === each.name && one.session === each.session.id);
        return html`<${Failure} key=${each.name} value=${each} command=${told?.command ?? undefined} />`;
      })}
    <//>
    <${HostFindings} />
    <${Section} title="Ending soon" count=${ending.length} none="No session ends within 15 minutes.">
      ${ending.slice(0, mostRows).map(
        (each) => html`<li key=${each.name}>
          <${StateMark} state=${each.state} name=${each.name} /><a href=${pathOf("sandboxes", each.name)}>${visible(each.name)}</a>
          <span class="cut"><${Ends} value=${each} /></span>
          <${ActButton} kind="small" act=${() => extend(each.name, each.session.id, soon)}>15 min more<//>
        </li>`,
      )}
    <//>`;
}

/** ms of its tape that a failed sandbox opens with, before and after the end of its session */
const around = { before: 10 * 60_000, after: 30_000 };

/** why it failed and what it ran last, with the way to its page at that moment */
function Failure({ value, command }: { value: Sandbox; command: Command | undefined }) {
  const { name, state, stateChangedAt, createdAt, session } = value;
  const moment = new URLSearchParams({
    tab: "commands",
    ...(command && { command: command.id }),
    from: String(Math.max(createdAt, stateChangedAt - around.before)),
    to: String(stateChangedAt + around.after),
  });
  return html`<li>
    <${StateMark} state=${state} name=${name} /><a href=${`${pathOf("sandboxes", name)}?${moment}`} title="Open it at that moment">${visible(name)}</a>
    <span class="cut"><span class="why">${visible(session.endReason ?? state)}</span>${command && html` <span class="mono quiet">${commandLine(command.command, command.args)}</span>`}</span>
    <span class="num" title=${date(stateChangedAt)}>${span(now.value - stateChangedAt)} ago</span>
  </li>`;
}

/** what limits sandboxes on the host, for those who may know */
function HostFindings() {
  useEffect(() => void examine(), []);
  const found = wrong.value ?? [];
  if (found.length === 0) return null;
  return html`<${Section} title="Doctor" count=${found.length} to=${pathOf("doctor")} none="">
    ${found.slice(0, mostRows).map(
      ({ name, state, detail }) => html`<li key=${name}>
        <span class=${state === "missing" ? "fail" : "pause"}><${Icon} name="warning" /></span><a href=${pathOf("doctor")}>${visible(name)}</a>
        <span class="cut quiet" title=${visible(detail)}>${visible(detail)}</span><span></span>
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
        <${StateMark} state=${each.state} name=${each.name} /><a href=${pathOf("sandboxes", each.name)}>${visible(each.name)}</a>
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
