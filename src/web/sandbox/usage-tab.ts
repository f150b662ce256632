/** What a sandbox uses: its load over time beside its limits, the sums of its session, and its traffic by host and port. */

import type { Output } from "../../client/types.ts";
import { useAnswer } from "../data/answer.ts";
import { now } from "../data/live.ts";
import type { Sample } from "../data/samples.ts";
import { html } from "../html.ts";
import { Unanswered } from "../parts/answered.ts";
import { client } from "../session.ts";
import { size, took, visible } from "../text.ts";
import { Chart } from "./chart.ts";
import type { Point } from "./curve.ts";
import type { TabProps } from "./sandbox-view.ts";
import { chosenStretch } from "./tape.ts";
import { stretchOf } from "./tape-scale.ts";

const every = 2000;
const mostHosts = 20;

export function UsageTab({ value: { state, session, vcpus, memory }, history }: TabProps) {
  const params = { session: session.id };
  const isRunning = state === "running";
  const turn = isRunning ? Math.floor(now.value / every) : 0;
  const read = async (signal: AbortSignal) => {
    const [used, load] = await Promise.all([
      client.call("getUsage", { params, signal }),
      isRunning ? client.call("getLoad", { params, signal }).catch(() => undefined) : undefined,
    ]);
    return { used, load };
  };
  const usage = useAnswer(session.id, read, undefined, turn);
  const loads = history.value?.loads ?? [];
  const samples = loads.toReversed().flatMap((each) => each.samples);
  const end = session.endedAt ?? now.value;
  const stretch =
    chosenStretch() ??
    stretchOf(
      loads.map((each) => each.session.startedAt ?? each.session.createdAt),
      end,
    );
  const limit = memory * 2 ** 20;
  const of = (value: (sample: Sample) => number): Point[] =>
    samples.map((each) => ({ at: each.at, value: value(each) }));
  const traces = (name: string, points: Point[]) => [{ name, points }];
  const disks = samples.flatMap(({ at, disk }) => (disk === null ? [] : [{ at, value: disk }]));
  return html`<${Unanswered} answer=${usage} />
    ${usage.value && html`<${Sums} ...${usage.value} />`}
    ${
      samples.length < 2
        ? html`<p class="empty">There are no measurements yet. The daemon takes one every few seconds, and keeps them while it runs.</p>`
        : html`<div class="charts">
          <${Chart} title="Processors" traces=${traces(
            "",
            of(({ processors }) => processors),
          )} stretch=${stretch} most=${vcpus}
            words=${(value: number) => Number(value.toFixed(2)).toString()} />
          <${Chart} title="Memory" traces=${traces(
            "",
            of((each) => each.memory),
          )} stretch=${stretch} most=${limit} words=${size} />
          <${Chart} title="Network" stretch=${stretch} words=${(value: number) => `${size(value)}/s`}
            traces=${[
              { name: "in", points: rates(samples, ({ bytesIn }) => bytesIn) },
              { name: "out", points: rates(samples, ({ bytesOut }) => bytesOut) },
            ]} />
          ${disks.length > 1 && html`<${Chart} title="Disk" traces=${traces("", disks)} stretch=${stretch} words=${size} />`}
        </div>`
    }
    <${ByHost} session=${session.id} turn=${turn} />`;
}

function Sums({ used, load }: { used: Output<"getUsage">; load: Output<"getLoad"> | undefined }) {
  const facts: [string, string | number][] = [
    ["ran", took(used.durationMs)],
    ["processor time", took(used.cpuMs)],
    ["net in", size(used.bytesIn)],
    ["net out", size(used.bytesOut)],
    ...(load
      ? ([
          ["processes", load.processes],
          ["most memory", size(load.peakMemory)],
          ["killed for lack of memory", load.outOfMemoryKills],
        ] as [string, string | number][])
      : []),
  ];
  return html`<dl class="facts sums">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd class="mono">${value}</dd></div>`)}</dl>`;
}

/** the traffic of the current session, most first */
function ByHost({ session, turn }: { session: string; turn: number }) {
  const query = { after: 0, limit: 1 };
  const read = (signal: AbortSignal) => client.call("readEgressLog", { params: { session }, query, signal });
  const { value } = useAnswer(session, read, undefined, turn);
  const rows = [
    ...(value?.hosts ?? []).map(({ host, ...rest }) => ({ what: host, ...rest })),
    ...(value?.ports ?? []).map(({ port, ...rest }) => ({ what: `through port ${port}`, ...rest })),
  ]
    .filter(({ bytesIn, bytesOut }) => bytesIn + bytesOut > 0)
    .toSorted((a, b) => b.bytesIn + b.bytesOut - a.bytesIn - a.bytesOut);
  if (rows.length === 0) return null;
  return html`<section class="block"><h2>Traffic of this session</h2>
    <table class="small-table"><thead><tr><th scope="col">Host or port</th><th scope="col" class="num">Connections</th><th scope="col" class="num">In</th><th scope="col" class="num">Out</th></tr></thead>
    <tbody>${rows.slice(0, mostHosts).map(
      (each) => html`<tr><th scope="row" class="mono">${visible(each.what)}</th><td class="num">${each.connections}</td>
        <td class="num">${size(each.bytesIn)}</td><td class="num">${size(each.bytesOut)}</td></tr>`,
    )}</tbody></table>
    ${rows.length > mostHosts && html`<p class="quiet">and ${rows.length - mostHosts} more</p>`}</section>`;
}

/** how a count grows in a second; it begins again with each session */
function rates(samples: readonly Sample[], count: (sample: Sample) => number): Point[] {
  return samples.slice(1).map((sample, index) => {
    const before = samples[index] ?? sample;
    const seconds = Math.max(0.001, (sample.at - before.at) / 1000);
    return { at: sample.at, value: Math.max(0, count(sample) - count(before)) / seconds };
  });
}
