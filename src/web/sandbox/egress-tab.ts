/** The outbound connections of a sandbox, and the narrowest policy that allows what was refused, as a difference. */

import { useState } from "preact/hooks";
import type { Output } from "../../client/types.ts";
import { useAnswer } from "../data/answer.ts";
import { type EgressLine, readEgress } from "../data/egress-log.ts";
import { now } from "../data/live.ts";
import { isAllowable, sumOf, type Traffic, type Verdict, verdictOf } from "../data/verdict.ts";
import { html } from "../html.ts";
import { act } from "../parts/acts.ts";
import { Unanswered } from "../parts/answered.ts";
import { Connection } from "../parts/connection.ts";
import { client } from "../session.ts";
import { size } from "../text.ts";
import { OfSessions, whenWords } from "./of-sessions.ts";
import type { TabProps } from "./sandbox-view.ts";
import { Suggestion } from "./suggestion.ts";
import { chosenStretch } from "./tape.ts";
import { touches } from "./tape-scale.ts";

/** ms between two reads of the log while the sandbox runs */
const every = 2000;

interface Asked {
  suggestion: Output<"suggestPolicy">;
  /** the refused line that somebody wants to allow; undefined for all of them */
  line?: EgressLine;
}

export function EgressTab({ value, history }: TabProps) {
  const { state, session } = value;
  const turn = state === "running" ? Math.floor(now.value / every) : 0;
  const answer = useAnswer(session.id, () => readEgress(session.id), undefined, turn);
  const [asked, setAsked] = useState<Asked | undefined>(undefined);
  const ask = async (line?: EgressLine) => {
    const params = { session: line?.sessionId ?? session.id };
    const suggestion = await act("Cannot suggest a policy", () => client.call("suggestPolicy", { params }));
    setAsked(suggestion && { suggestion, ...(line && { line }) });
  };
  const stretch = chosenStretch();
  const logs = [...(history.value?.earlier ?? []), ...(answer.value ? [answer.value] : [])];
  const lines = logs
    .flatMap((log) => log.lines)
    .filter(({ at }) => touches(stretch, Number(at)))
    .toReversed();
  const count = (verdict: Verdict) => lines.filter((line) => verdictOf(line) === verdict).length;
  const [refused, failed] = [count("refused"), count("failed")];
  const ports = sumOf(logs.map((each) => each.ports));
  // No policy allows more than allow-all.
  const canAllow = state === "running" && session.networkPolicy.mode !== "allow-all";
  const canSuggest = canAllow && lines.some((line) => line.sessionId === session.id && isAllowable(line));
  const row = (each: EgressLine) =>
    html`<${Connection} key=${`${each.sessionId} ${each.id}`} line=${each}>${
      canAllow &&
      isAllowable(each) &&
      html`<button type="button" class="small" onClick=${() => void ask(each)}>Allow…</button>`
    }<//>`;
  return html`<div class="ph wraps">
      <b>${count("allowed")} allowed</b>${failed > 0 && html`<span>${failed} failed</span>`}
      <span class=${refused > 0 ? "problem" : ""}>${refused} refused</span>
      ${logs.length > 0 && !stretch && html`<span class="num">${trafficWords(sumOf(logs.map(({ hosts }) => hosts)))}</span>`}
      ${ports.bytesIn + ports.bytesOut > 0 && !stretch && html`<span class="num wide">through ports: ${trafficWords(ports)}</span>`}
      <span class="r">${canSuggest && html`<button type="button" onClick=${() => void ask()}>Suggest a policy…</button>`}</span>
    </div>
    <${Unanswered} answer=${answer} />
    ${answer.value && lines.length === 0 && html`<p class="empty">Nothing has tried to reach the network ${whenWords(stretch !== undefined, history.value)}.</p>`}
    ${
      lines.length > 0 &&
      html`<ul class="connections" aria-label="Connections" tabindex="0">
        <${OfSessions} items=${lines} current=${session.id} history=${history.value} row=${row} />
      </ul>`
    }
    ${asked && html`<${Suggestion} value=${value} suggestion=${asked.suggestion} only=${asked.line} close=${() => setAsked(undefined)} />`}`;
}

function trafficWords({ bytesIn, bytesOut }: Traffic): string {
  return `${size(bytesIn)} in · ${size(bytesOut)} out`;
}
