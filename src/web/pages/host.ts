/** What the host has and uses, and what limits sandboxes on it, each with the command that repairs it. */

import type { Output } from "../../client/types.ts";
import { useAnswer } from "../data/answer.ts";
import { keepWrong } from "../data/diagnosis.ts";
import { now } from "../data/live.ts";
import { html } from "../html.ts";
import { copy } from "../parts/acts.ts";
import { Unanswered } from "../parts/answered.ts";
import { Icon } from "../parts/icon.ts";
import { client } from "../session.ts";
import { size, visible } from "../text.ts";

const every = 5000;

export function HostPage() {
  return html`<div class="doctor"><h1 class="unseen">Doctor</h1><${Numbers} /><${Findings} /></div>`;
}

function Numbers() {
  const turn = Math.floor(now.value / every);
  const answer = useAnswer("host", (signal) => client.call("getCapacity", { signal }), undefined, turn);
  if (!answer.value) return html`<${Unanswered} answer=${answer} />`;
  const { machines, sessions, disk, openFiles, tcpMemory } = answer.value;
  const numbers: [string, string | number, string?][] = [
    ["machines that run", machines.running],
    ["paused", machines.paused],
    ["in the pool", machines.hot + machines.warm, `${machines.hot} hot`],
    ...Object.entries(sessions).map(([state, count]): [string, number] => [`sessions ${state}`, count]),
    ...(disk?.places ?? []).map(({ place, free, reserve }): [string, string, string] => [
      place === "disk" ? "free on the disk" : "free in the store",
      size(free),
      `${size(reserve)} kept free`,
    ]),
    ["open files", openFiles.now.toLocaleString("en"), `of ${openFiles.most.toLocaleString("en")}`],
    ["memory of TCP", size(tcpMemory.now), `of ${size(tcpMemory.most)}`],
  ];
  return html`${disk?.isGrowthStopped && html`<p class="notice problem" role="alert">The disk is almost full, so sandboxes cannot grow.</p>`}
    <dl class="figures">${numbers.map(
      ([title, value, more]) =>
        html`<div><dt>${title}</dt><dd>${value}${more && html`<small> ${more}</small>`}</dd></div>`,
    )}</dl>`;
}

const words = { ok: "fine", warning: "limits", missing: "prevents" };
const order = { missing: 0, warning: 1, ok: 2 };

function Findings() {
  const answer = useAnswer("doctor", async (signal) => {
    const diagnosis = await client.call("getDiagnosis", { signal });
    keepWrong(diagnosis.findings);
    return diagnosis;
  });
  if (!answer.value) {
    return answer.problem === ""
      ? html`<p class="waiting" role="status">Examining the host …</p>`
      : html`<${Unanswered} answer=${answer} />`;
  }
  const { ok, isolation, findings } = answer.value;
  const sorted = findings.toSorted((a, b) => order[a.state] - order[b.state]);
  const wrong = findings.filter(({ state }) => state !== "ok").length;
  return html`<div class="ph wraps"><b>${ok ? "Sandboxes can run here" : "Sandboxes cannot run here"}</b>
      <span>${wrong === 0 ? "nothing limits them" : `${wrong} of ${findings.length} findings need a look`}</span>
      <button type="button" class="small gap" onClick=${answer.reread}>Examine again</button></div>
    <ul class="findings">${sorted.map((each) => html`<${Finding} value=${each} />`)}</ul>
    <p class="note">A sandbox is isolated by ${visible(isolation.join(", "))}.</p>`;
}

function Finding({ value: { name, state, detail, fix } }: { value: Output<"getDiagnosis">["findings"][number] }) {
  const kind = { ok: "quiet", warning: "pause", missing: "fail" }[state];
  return html`<li>
    <span class=${`verdict-word ${kind}`}>${state === "ok" ? "✓" : html`<${Icon} name="warning" />`} ${words[state]}</span>
    <b>${visible(name)}</b><span>${visible(detail)}</span>
    ${
      fix !== null &&
      html`<span class="fix"><code>${visible(fix)}</code><button type="button" class="small" onClick=${() => void copy(fix)}>Copy</button></span>`
    }
  </li>`;
}
