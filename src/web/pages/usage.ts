/** What every sandbox has used in its sessions that are over, and what the project has used together. */

import { everything, type Sandbox } from "../data/live.ts";
import { html } from "../html.ts";
import { Bar } from "../parts/meters.ts";
import { Rows } from "../parts/rows.ts";
import { StateMark } from "../parts/state.ts";
import { pathOf } from "../router.ts";
import { size, span, took, visible } from "../text.ts";

const heads = [
  { title: "Sandbox", column: "" },
  { title: "Processor time", column: "c-meter" },
  { title: "Ran", column: "c-age num" },
  { title: "GiB hours", column: "c-age num wide" },
  { title: "Net in", column: "c-age num" },
  { title: "Net out", column: "c-age num wide" },
];

export function UsagePage() {
  const all = everything.value.toSorted((a, b) => b.totals.cpuMs - a.totals.cpuMs);
  const sum = (of: (sandbox: Sandbox) => number) => all.reduce((total, each) => total + of(each), 0);
  const most = Math.max(1, all[0]?.totals.cpuMs ?? 0);
  const row = (each: Sandbox) => html`<tr data-row>
    <th scope="row" class="c-name"><${StateMark} state=${each.state} /><a href=${`${pathOf("sandboxes", each.name)}?tab=usage`}>${visible(each.name)}</a></th>
    <td class="c-meter"><span class="cell2"><span>${took(each.totals.cpuMs)}</span><${Bar} part=${each.totals.cpuMs / most} /></span></td>
    <td class="num">${span(each.totals.durationMs)}</td>
    <td class="num wide">${gibHours(each).toFixed(2)}</td>
    <td class="num">${size(each.totals.bytesIn)}</td>
    <td class="num wide">${size(each.totals.bytesOut)}</td>
  </tr>`;
  return html`<h1 class="unseen">Usage</h1>
    <dl class="figures">
      <div><dt>processor time</dt><dd>${took(sum(({ totals }) => totals.cpuMs))}</dd></div>
      <div><dt>ran</dt><dd>${span(sum(({ totals }) => totals.durationMs))}</dd></div>
      <div><dt>GiB hours</dt><dd>${sum(gibHours).toFixed(2)}</dd></div>
      <div><dt>net in / out</dt><dd>${size(sum(({ totals }) => totals.bytesIn))} / ${size(sum(({ totals }) => totals.bytesOut))}</dd></div>
    </dl>
    <p class="note">Of sessions that are over, of the sandboxes that still exist. The page of a sandbox also shows what its session uses now.</p>
    ${
      all.length === 0
        ? html`<p class="empty">There is no sandbox yet.</p>`
        : html`<${Rows} label="Usage" heads=${heads} items=${all} keyOf=${(each: Sandbox) => each.name} row=${row} kind="totals" />`
    }`;
}

/** memory that was reserved, times how long */
function gibHours({ memory, totals }: Sandbox): number {
  return (memory / 1024) * (totals.durationMs / 3_600_000);
}
