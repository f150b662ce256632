/** What a session uses: measured every two seconds while this tab is open, and the sums of the session. */

import { useEffect, useState } from "preact/hooks";
import type { Output } from "../../client/types.ts";
import { useAnswer } from "../data/answer.ts";
import { now } from "../data/live.ts";
import { html } from "../html.ts";
import { Unanswered } from "../parts/answered.ts";
import { Line } from "../parts/meters.ts";
import { client } from "../session.ts";
import { size, took } from "../text.ts";
import type { TabProps } from "./sandbox-view.ts";

const every = 2000;
const mostSamples = 150;

export function UsageTab({ value: { state, session, vcpus, memory } }: TabProps) {
  const params = { session: session.id };
  const isRunning = state === "running";
  const turn = isRunning ? Math.floor(now.value / every) : 0;
  const usage = useAnswer(`${session.id} ${turn}`, (signal) => client.call("getUsage", { params, signal }));
  const [samples, setSamples] = useState<readonly Output<"getLoad">[]>([]);
  useEffect(() => {
    if (!isRunning) return;
    client.call("getLoad", { params }).then(
      (load) => setSamples((old) => [...old, load].slice(-mostSamples)),
      () => undefined,
    );
  }, [turn]);
  const last = samples.at(-1);
  const limit = memory * 2 ** 20;
  return html`<${Unanswered} answer=${usage} />
    ${
      usage.value &&
      html`<section class="block"><h2>This session</h2><dl class="facts">
        <div><dt>ran</dt><dd>${took(usage.value.durationMs)}</dd></div>
        <div><dt>processor time</dt><dd>${took(usage.value.cpuMs)}</dd></div>
        <div><dt>net in</dt><dd>${size(usage.value.bytesIn)}</dd></div>
        <div><dt>net out</dt><dd>${size(usage.value.bytesOut)}</dd></div>
      </dl></section>`
    }
    ${
      last &&
      html`<section class="block"><h2>Processors: ${last.processors.toFixed(2)} of ${vcpus}</h2>
          <${Line} values=${samples.map(({ processors }) => processors)} most=${vcpus} label="Busy processors; the top is the limit" /></section>
        <section class="block"><h2>Memory: ${size(last.memory)} of ${size(limit)}</h2>
          <${Line} values=${samples.map((each) => each.memory)} most=${limit} label="Memory; the top is the limit" />
          <p>${last.processes} processes · at most ${size(last.peakMemory)} · ${last.outOfMemoryKills} killed for lack of memory</p></section>`
    }`;
}
