/** What a sandbox uses: its load over time beside its limits, the sums of its session, and its traffic by host and port. */

import type { Output } from "../../client/types.ts";
import { useAnswer } from "../data/answer.ts";
import { now } from "../data/live.ts";
import { readSamples, type Sample } from "../data/samples.ts";
import { hostsOf, memoryHours, type Used, usedIn } from "../data/usage-in.ts";
import { type EgressLog, mostLines, readLogs } from "../egress/egress-log.ts";
import { html } from "../html.ts";
import { Unanswered } from "../parts/answered.ts";
import { client } from "../session.ts";
import { chosenStretch } from "../tape/tape.ts";
import { type Stretch, stretchOf, touches } from "../tape/tape-scale.ts";
import { size, took, visible } from "../text.ts";
import { Chart } from "./chart.ts";
import type { Point } from "./curve.ts";
import { LostLogs } from "./of-sessions.ts";
import type { TabProps } from "./sandbox-view.ts";

const every = 2000;
const mostHosts = 20;

export function UsageTab({ value, history }: TabProps) {
  const { state, session, vcpus, memory } = value;
  const params = { session: session.id };
  const isRunning = state === "running";
  const turn = isRunning ? Math.floor(now.value / every) : 0;
  const sessions = history.value?.sessions ?? [];
  const read = async (signal: AbortSignal) => {
    const [used, load, loads, { logs, gone }] = await Promise.all([
      client.call("getUsage", { params, signal }),
      isRunning ? client.call("getLoad", { params, signal }).catch(() => undefined) : undefined,
      Promise.all(sessions.map(async (each) => ({ session: each, samples: await readSamples(each, signal) }))),
      readLogs(sessions),
    ]);
    return { used: { ...used, memoryHours: memoryHours(memory, used.durationMs) }, load, loads, logs, gone };
  };
  const usage = useAnswer(`${session.id} ${sessions.length}`, read, undefined, turn);
  const loads = usage.value?.loads ?? [];
  const samples = loads.toReversed().flatMap((each) => each.samples);
  const end = session.endedAt ?? now.value;
  const chosen = chosenStretch();
  const stretch =
    chosen ??
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
    ${usage.value && (chosen ? html`<${Sums} used=${usedIn(loads, chosen)} />` : html`<${Sums} ...${usage.value} />`)}
    ${
      samples.length < 2
        ? html`<p class="empty">${isRunning ? "There are no measurements yet. The daemon takes one every few seconds." : "There are too few measurements for a chart. The daemon takes one every few seconds while the sandbox runs."}</p>`
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
    ${usage.value && html`<${ByHost} logs=${usage.value.logs} gone=${usage.value.gone} chosen=${chosen} current=${session.id} />`}`;
}

function Sums({ used, load }: { used: Used; load?: Output<"getLoad"> | undefined }) {
  const facts: [string, string | number][] = [
    ["ran", took(used.durationMs)],
    ["processor time", took(used.cpuMs)],
    ["reserved memory", `${Number(used.memoryHours.toPrecision(3))} GiB·h`],
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

interface ByHostProps {
  logs: readonly EgressLog[];
  gone: readonly string[];
  chosen: Stretch | undefined;
  current: string;
}

/** the traffic of the current session, or that of the chosen time, most first */
function ByHost({ logs, gone, chosen, current }: ByHostProps) {
  const lines = logs.flatMap((log) => log.lines);
  const log = gone.includes(current) ? undefined : logs.at(-1);
  const inTime = chosen && hostsOf(lines.filter(({ at }) => touches(chosen, Number(at))));
  const rows = [
    ...(inTime ?? log?.hosts ?? []).map(({ host, ...rest }) => ({ what: host, ...rest })),
    // The daemon does not know when bytes came through a port.
    ...((chosen ? undefined : log?.ports) ?? []).map(({ port, ...rest }) => ({
      what: `through port ${port}`,
      ...rest,
    })),
  ]
    .filter(({ bytesIn, bytesOut }) => bytesIn + bytesOut > 0)
    .toSorted((a, b) => b.bytesIn + b.bytesOut - a.bytesIn - a.bytesOut);
  const isCut = chosen !== undefined && logs.some((each) => each.isCut);
  return html`<section class="block"><h2>${chosen ? "Traffic of connections that began in this time" : "Traffic of this session"}</h2>
    <${LostLogs} count=${chosen ? gone.length : Number(gone.includes(current))} />
    ${chosen && html`<p class="quiet">Traffic through ports has no times, so it is not here.</p>`}
    ${isCut && html`<p class="quiet">Only the newest ${mostLines} lines of each log are counted.</p>`}
    ${rows.length === 0 && html`<p class="quiet">No bytes went to or came from a host.</p>`}
    ${
      rows.length > 0 &&
      html`<table class="small-table"><thead><tr><th scope="col">Host or port</th><th scope="col" class="num">Connections</th><th scope="col" class="num">In</th><th scope="col" class="num">Out</th></tr></thead>
    <tbody>${rows.slice(0, mostHosts).map(
      (each) => html`<tr><th scope="row" class="mono">${visible(each.what)}</th><td class="num">${each.connections}</td>
        <td class="num">${size(each.bytesIn)}</td><td class="num">${size(each.bytesOut)}</td></tr>`,
    )}</tbody></table>`
    }
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
