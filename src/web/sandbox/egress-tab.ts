/** The outbound connections of a session, and the narrowest policy that allows what was refused, as a difference. */

import { useState } from "preact/hooks";
import type { Output } from "../../client/types.ts";
import { useAnswer } from "../data/answer.ts";
import { type EgressLine, readEgress } from "../data/egress-log.ts";
import { now, reread, type Sandbox } from "../data/live.ts";
import { html } from "../html.ts";
import { act, say } from "../parts/acts.ts";
import { Unanswered } from "../parts/answered.ts";
import { client } from "../session.ts";
import { clock, size, visible } from "../text.ts";
import type { TabProps } from "./sandbox-view.ts";
import { chosenStretch } from "./tape.ts";
import { touches } from "./tape-scale.ts";

/** ms between two reads of the log while the sandbox runs */
const every = 2000;

export function EgressTab({ value }: TabProps) {
  const { state, session } = value;
  const turn = state === "running" ? Math.floor(now.value / every) : 0;
  const params = { session: session.id };
  const answer = useAnswer(`${session.id} ${turn}`, () => readEgress(session.id));
  const [suggestion, setSuggestion] = useState<Output<"suggestPolicy"> | undefined>(undefined);
  const ask = async () => {
    setSuggestion(await act("Cannot suggest a policy", () => client.call("suggestPolicy", { params })));
  };
  const stretch = chosenStretch();
  const lines = (answer.value?.lines ?? []).filter(({ at }) => touches(stretch, Number(at))).toReversed();
  const refused = lines.filter(({ allowed }) => allowed === false).length;
  return html`<div class="ph">
      <b>${lines.length - refused} allowed</b><span class=${refused > 0 ? "problem" : ""}>${refused} refused</span>
      ${answer.value && html`<span class="num">${size(answer.value.bytesIn)} in · ${size(answer.value.bytesOut)} out</span>`}
      <span class="r">${refused > 0 && state === "running" && html`<button type="button" onClick=${ask}>Allow…</button>`}</span>
    </div>
    ${suggestion && html`<${Suggestion} value=${value} suggestion=${suggestion} close=${() => setSuggestion(undefined)} />`}
    <${Unanswered} answer=${answer} />
    ${answer.value && lines.length === 0 && html`<p class="empty">Nothing has tried to reach the network ${stretch ? "in this time" : "in this session"}.</p>`}
    ${
      lines.length > 0 &&
      html`<div class="rows" tabindex="0" role="region" aria-label="Connections"><table>
        <thead><tr><th scope="col" class="c-age">Time</th><th scope="col" class="c-age">Verdict</th><th scope="col">To</th><th scope="col" class="wide">Why</th><th scope="col" class="c-net num">In / out</th></tr></thead>
        <tbody>${lines.map((each) => html`<${Connection} line=${each} key=${each.id} />`)}</tbody>
      </table></div>`
    }`;
}

function Connection({ line }: { line: EgressLine }) {
  const text = (name: string) => visible(typeof line[name] === "string" ? line[name] : "");
  const number = (name: string) => (typeof line[name] === "number" ? line[name] : 0);
  const isRefused = line.allowed === false;
  const where = [text("name") || text("address"), number("port") > 0 ? `:${number("port")}` : ""].join("");
  const count = number("count");
  const request = [text("protocol"), text("method"), text("path"), count > 1 ? `×${count}` : "", text("program")];
  return html`<tr class=${isRefused ? "refused" : ""}>
    <td class="mono">${clock(number("at"))}</td>
    <td class=${isRefused ? "problem" : ""}>${isRefused ? "✕ refused" : "✓ allowed"}</td>
    <th scope="row" class="mono">${where} <span class="quiet">${request.filter((word) => word !== "").join(" ")}</span></th>
    <td class=${isRefused ? "problem wide" : "wide"}>${text(isRefused ? "reason" : "rule")}</td>
    <td class="num">${size(number("bytesIn"))} / ${size(number("bytesOut"))}</td>
  </tr>`;
}

interface SuggestionProps {
  value: Sandbox;
  suggestion: Output<"suggestPolicy">;
  close: () => void;
}

function Suggestion({ value: { name, session }, suggestion: { networkPolicy, notes }, close }: SuggestionProps) {
  const present = session.networkPolicy;
  const [domains, cidrs, denied] =
    present.mode === "custom"
      ? [present.domains.map(({ domain }) => domain), present.allowedCidrs, present.deniedCidrs]
      : [[], [], []];
  const newDomains = networkPolicy.allow.filter((each) => !domains.includes(each));
  const newCidrs = (networkPolicy.subnets?.allow ?? []).filter((each) => !cidrs.includes(each));
  const apply = async () => {
    const wanted = {
      mode: "custom" as const,
      domains: [...domains, ...newDomains].map((domain) => ({ domain })),
      allowedCidrs: [...cidrs, ...newCidrs],
      deniedCidrs: denied,
    };
    const params = { sandbox: name };
    const done = await act("Cannot change the policy", () =>
      client.call("setNetworkPolicy", { params, body: { networkPolicy: wanted } }),
    );
    if (done) {
      say(`The policy of ${name} has changed`);
      close();
    }
    await reread(name);
  };
  const hasNews = newDomains.length + newCidrs.length > 0;
  return html`<section class="block" aria-label="Suggested policy">
    <h2>Least policy for what was refused</h2>
    <p>Programs in the sandbox chose what is in it. Read it before you use it.</p>
    <pre>${[...domains, ...cidrs].map((each) => html`<div>  ${visible(each)}</div>`)}${[...newDomains, ...newCidrs].map((each) => html`<div class="add">+ ${visible(each)}</div>`)}</pre>
    ${notes.map((note) => html`<p>${visible(note)}</p>`)}
    <div class="acts">
      ${hasNews ? html`<button type="button" class="primary" onClick=${apply}>Apply to ${visible(name)}</button>` : html`<span>There is nothing to add.</span>`}
      <button type="button" onClick=${close}>Close</button>
    </div>
  </section>`;
}
