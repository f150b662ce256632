/** The outbound connections of a session, and the narrowest policy that allows what was refused, as a difference. */

import { useState } from "preact/hooks";
import type { Output } from "../../client/types.ts";
import { useAnswer } from "../data/answer.ts";
import { type EgressLine, readEgress } from "../data/egress-log.ts";
import { now } from "../data/live.ts";
import { html } from "../html.ts";
import { act } from "../parts/acts.ts";
import { Unanswered } from "../parts/answered.ts";
import { Icon } from "../parts/icon.ts";
import { client } from "../session.ts";
import { clock, size, visible } from "../text.ts";
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

export function EgressTab({ value }: TabProps) {
  const { state, session } = value;
  const turn = state === "running" ? Math.floor(now.value / every) : 0;
  const params = { session: session.id };
  const answer = useAnswer(`${session.id} ${turn}`, () => readEgress(session.id));
  const [asked, setAsked] = useState<Asked | undefined>(undefined);
  const ask = async (line?: EgressLine) => {
    const suggestion = await act("Cannot suggest a policy", () => client.call("suggestPolicy", { params }));
    setAsked(suggestion && { suggestion, ...(line && { line }) });
  };
  const stretch = chosenStretch();
  const lines = (answer.value?.lines ?? []).filter(({ at }) => touches(stretch, Number(at))).toReversed();
  const refused = lines.filter(({ allowed }) => allowed === false).length;
  const canAllow = state === "running";
  return html`<div class="ph">
      <b>${lines.length - refused} allowed</b><span class=${refused > 0 ? "problem" : ""}>${refused} refused</span>
      ${answer.value && html`<span class="num">${size(answer.value.bytesIn)} in · ${size(answer.value.bytesOut)} out</span>`}
      <span class="r">${refused > 0 && canAllow && html`<button type="button" onClick=${() => void ask()}>Suggest a policy…</button>`}</span>
    </div>
    <${Unanswered} answer=${answer} />
    ${answer.value && lines.length === 0 && html`<p class="empty">Nothing has tried to reach the network ${stretch ? "in this time" : "in this session"}.</p>`}
    ${
      lines.length > 0 &&
      html`<ul class="connections" aria-label="Connections" tabindex="0">
        ${lines.map((each) => html`<${Connection} key=${each.id} line=${each} allow=${canAllow ? ask : undefined} />`)}
      </ul>`
    }
    ${asked && html`<${Suggestion} value=${value} suggestion=${asked.suggestion} only=${asked.line} close=${() => setAsked(undefined)} />`}`;
}

function Connection({ line, allow }: { line: EgressLine; allow: ((line: EgressLine) => void) | undefined }) {
  const text = (name: string) => visible(typeof line[name] === "string" ? line[name] : "");
  const number = (name: string) => (typeof line[name] === "number" ? line[name] : 0);
  const isRefused = line.allowed === false;
  const where = [text("name") || text("address"), number("port") > 0 ? `:${number("port")}` : ""].join("");
  const count = number("count");
  const request = [text("protocol"), text("method"), text("path"), count > 1 ? `×${count}` : ""];
  const words = [request.filter((word) => word !== "").join(" "), text("program")].filter((word) => word !== "");
  return html`<li class=${isRefused ? "refused" : ""}>
    <span class="when">${clock(number("at"))}</span>
    <span class=${isRefused ? "verdict fail" : "verdict"}>${isRefused ? html`<${Icon} name="refused" />` : "✓"}<span class="unseen">${isRefused ? "refused" : "allowed"}</span></span>
    <span class="mono cut">${where} <span class="quiet">${words.join(" · ")}</span></span>
    <span class="num quiet">${isRefused ? "" : `${size(number("bytesIn"))} / ${size(number("bytesOut"))}`}</span>
    ${
      isRefused &&
      html`<span class="why">${text("reason")}</span>${allow && html`<button type="button" class="small" onClick=${() => allow(line)}>Allow…</button>`}`
    }
  </li>`;
}
