/**
 * The outbound connections of a sandbox, its traffic by host and by port, and its policy. The narrowest policy that allows
 * what was refused is shown as a difference.
 */

import { useState } from "preact/hooks";
import type { Output } from "../../client/types.ts";
import { useAnswer } from "../data/answer.ts";
import type { Command } from "../data/history.ts";
import { now } from "../data/live.ts";
import { type EgressLine, type EgressLog, mostLines, readLogs } from "../egress/egress-log.ts";
import { HostSums, PortSums } from "../egress/egress-sums.ts";
import { isAllowable, sumOf, type Traffic, type Verdict, verdictOf } from "../egress/verdict.ts";
import { html } from "../html.ts";
import { act } from "../parts/acts.ts";
import { Unanswered } from "../parts/answered.ts";
import { Connection } from "../parts/connection.ts";
import { parameter, pathOf, setParameters } from "../router.ts";
import { client } from "../session.ts";
import { chosenStretch } from "../tape/tape.ts";
import { type Stretch, touches } from "../tape/tape-scale.ts";
import { commandLine, size } from "../text.ts";
import { LostLogs, OfSessions, whenWords } from "./of-sessions.ts";
import { PolicyView } from "./policy-view.ts";
import type { TabProps } from "./sandbox-view.ts";
import { Suggestion } from "./suggestion.ts";

/** ms between two reads of the log while the sandbox runs */
const every = 2000;

interface Asked {
  suggestion: Output<"suggestPolicy">;
  /** the refused line that somebody wants to allow; undefined for all of them */
  line?: EgressLine;
}

const views = ["connections", "hosts", "ports", "policy"] as const;

export function EgressTab({ value, history }: TabProps) {
  const { state, session } = value;
  const turn = state === "running" ? Math.floor(now.value / every) : 0;
  const sessions = history.value?.sessions ?? [];
  const answer = useAnswer(`${session.id} ${sessions.length}`, () => readLogs(sessions), undefined, turn);
  const stretch = chosenStretch();
  const view = views.find((each) => each === parameter("view")) ?? "connections";
  const { logs = [], gone = [] } = answer.value ?? {};
  const ports = sumOf(logs.flatMap((each) => each.ports));
  const counts = new Map<Verdict, number>();
  for (const line of logs.flatMap((log) => log.lines).filter(({ at }) => touches(stretch, Number(at))))
    counts.set(verdictOf(line), (counts.get(verdictOf(line)) ?? 0) + Math.max(1, Number(line.count ?? 1)));
  const count = (verdict: Verdict) => counts.get(verdict) ?? 0;
  const [refused, failed] = [count("refused"), count("failed")];
  return html`<div class="ph wraps">
      <nav class="choice" aria-label="Views of the connections">${views.map(
        (each) => html`<button type="button" class="small" aria-pressed=${each === view ? "true" : "false"}
          onClick=${() => setParameters({ view: each === "connections" ? "" : each })}>${each}</button>`,
      )}</nav>
      <b>${count("allowed")} allowed</b>${failed > 0 && html`<span>${failed} failed</span>`}
      <span class=${refused > 0 ? "problem" : ""}>${refused} refused</span>
      ${logs.length > 0 && !stretch && html`<span class="num">${trafficWords(sumOf(logs.flatMap(({ hosts }) => hosts)))}</span>`}
      ${ports.bytesIn + ports.bytesOut > 0 && !stretch && html`<span class="num wide">through ports: ${trafficWords(ports)}</span>`}
    </div>
    <${Unanswered} answer=${answer} />
    <${LostLogs} count=${gone.length} />
    ${view !== "policy" && view !== "ports" && logs.some(({ isCut }) => isCut) && html`<p class="note">Only the newest ${mostLines} lines of each session are here; <span class="mono">sandkeep egress</span> has all of them.</p>`}
    ${view === "connections" && answer.value && html`<${Connections} value=${value} history=${history} logs=${logs} stretch=${stretch} />`}
    ${view === "hosts" && html`<${HostSums} logs=${logs} stretch=${stretch} />`}
    ${view === "ports" && html`<${PortSums} logs=${logs} stretch=${stretch} />`}
    ${view === "policy" && stretch && html`<p class="note only-now">This is the policy of now, not of the chosen time.</p>`}
    ${view === "policy" && html`<${PolicyView} value=${value} />`}`;
}

interface ConnectionsProps extends TabProps {
  logs: readonly EgressLog[];
  stretch: Stretch | undefined;
}

function Connections({ value, history, logs, stretch }: ConnectionsProps) {
  const { state, session } = value;
  const [asked, setAsked] = useState<Asked | undefined>(undefined);
  const ask = async (line?: EgressLine) => {
    const params = { session: line?.sessionId ?? session.id };
    const suggestion = await act("Cannot suggest a policy", () => client.call("suggestPolicy", { params }));
    setAsked(suggestion && { suggestion, ...(line && { line }) });
  };
  const lines = logs
    .flatMap((log) => log.lines)
    .filter(({ at }) => touches(stretch, Number(at)))
    .toReversed();
  // No policy allows more than allow-all.
  const canAllow = state === "running" && session.networkPolicy.mode !== "allow-all";
  const canSuggest = canAllow && lines.some((line) => line.sessionId === session.id && isAllowable(line));
  const commands = new Map(history.value?.commands.map((each) => [each.id, each]));
  const row = (each: EgressLine) =>
    html`<${Connection} key=${`${each.sessionId} ${each.id}`} line=${each} by=${commandOf(value.name, each, commands)}>${
      canAllow &&
      isAllowable(each) &&
      html`<button type="button" class="small" onClick=${() => void ask(each)}>Allow…</button>`
    }<//>`;
  return html`${lines.length === 0 && html`<p class="empty">Nothing has tried to reach the network ${whenWords(stretch !== undefined, history.value)}.</p>`}
    ${canSuggest && html`<div class="ph"><button type="button" onClick=${() => void ask()}>Suggest a policy…</button></div>`}
    ${
      lines.length > 0 &&
      html`<ul class="connections" aria-label="Connections" tabindex="0">
        <${OfSessions} items=${lines} current=${session.id} history=${history.value} row=${row} />
      </ul>`
    }
    ${asked && html`<${Suggestion} value=${value} suggestion=${asked.suggestion} only=${asked.line} close=${() => setAsked(undefined)} />`}`;
}

/** a way to the command that made a connection, if it is known */
function commandOf(sandbox: string, { command: id }: EgressLine, commands: ReadonlyMap<string, Command>) {
  if (typeof id !== "string" || !/^cmd_\w+$/.test(id)) return undefined;
  const command = commands.get(id);
  const words = command ? commandLine(command.command, command.args) : "its command";
  const href = `${pathOf("sandboxes", sandbox)}?tab=commands&command=${id}`;
  return html`<a class="by cut" href=${href} title=${`Show the command: ${words}`}>${words}</a>`;
}

function trafficWords({ bytesIn, bytesOut }: Traffic): string {
  return `${size(bytesIn)} in · ${size(bytesOut)} out`;
}
