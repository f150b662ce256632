/** What the host has and uses. */

import { useAnswer } from "../data/answer.ts";
import { now } from "../data/live.ts";
import { html } from "../html.ts";
import { Unanswered } from "../parts/answered.ts";
import { client } from "../session.ts";
import { size } from "../text.ts";

const every = 5000;

export function HostPage() {
  const answer = useAnswer(`host ${Math.floor(now.value / every)}`, (signal) => client.call("getCapacity", { signal }));
  if (!answer.value) return html`<h1 class="unseen">Host</h1><${Unanswered} answer=${answer} />`;
  const { machines, sessions, disk, openFiles, tcpMemory } = answer.value;
  const numbers: [string, string | number][] = [
    ["machines that run", machines.running],
    ["paused machines", machines.paused],
    ["prepared machines, hot", machines.hot],
    ["prepared machines, warm", machines.warm],
    ...Object.entries(sessions).map(([state, count]): [string, number] => [`sessions ${state}`, count]),
    ...(disk?.places ?? []).map(({ place, free, reserve }): [string, string] => [
      place === "disk" ? "free on the disk" : "free in the store",
      `${size(free)} (${size(reserve)} are kept free)`,
    ]),
    ["open files", `${openFiles.now} of ${openFiles.most}`],
    ["memory of TCP, pages", `${tcpMemory.now} of ${tcpMemory.most}`],
  ];
  return html`<h1 class="unseen">Host</h1>
    ${disk?.isGrowthStopped && html`<p class="notice problem" role="alert">The disk is almost full, so sandboxes cannot grow.</p>`}
    <div class="rows" tabindex="0" role="region" aria-label="Host"><table>
      <thead><tr><th scope="col">What</th><th scope="col" class="num">Now</th></tr></thead>
      <tbody>${numbers.map(([title, value]) => html`<tr><th scope="row">${title}</th><td class="num">${value}</td></tr>`)}</tbody>
    </table></div>`;
}
