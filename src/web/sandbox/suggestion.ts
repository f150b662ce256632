/** A change of a sandbox's network policy, shown as a difference before it is applied. */

import type { Output } from "../../client/types.ts";
import { reread, type Sandbox } from "../data/live.ts";
import type { EgressLine } from "../egress/egress-log.ts";
import { html } from "../html.ts";
import { act, copy, say } from "../parts/acts.ts";
import { client } from "../session.ts";
import { visible } from "../text.ts";

interface SuggestionProps {
  value: Sandbox;
  suggestion: Output<"suggestPolicy">;
  /** the refused connection to allow; without it, all that were refused */
  only: EgressLine | undefined;
  close: () => void;
}

export function Suggestion({ value: { name, session }, suggestion, only, close }: SuggestionProps) {
  const present = session.networkPolicy;
  const { domains, cidrs, denied } = partsOf(present);
  const isWanted = (each: string) => only === undefined || isAbout(only, each);
  const added = {
    domains: suggestion.networkPolicy.allow.filter((each) => !domains.includes(each) && isWanted(each)),
    cidrs: (suggestion.networkPolicy.subnets?.allow ?? []).filter((each) => !cidrs.includes(each) && isWanted(each)),
  };
  // The daemon never shows the values of headers that rules add, so this page could not keep them.
  const hasRules = present.mode === "custom" && present.domains.some(({ rules }) => rules.length > 0);
  const apply = async () => {
    const networkPolicy = {
      mode: "custom" as const,
      domains: [...domains, ...added.domains].map((domain) => ({ domain })),
      allowedCidrs: [...cidrs, ...added.cidrs],
      deniedCidrs: denied,
    };
    const params = { sandbox: name };
    const done = await act("Cannot change the policy", () =>
      client.call("setNetworkPolicy", { params, body: { networkPolicy } }),
    );
    if (done) {
      say(`The policy of ${name} has changed`);
      close();
    }
    await reread(name);
  };
  const hasNews = added.domains.length + added.cidrs.length > 0;
  const isAllowed = only !== undefined && [...domains, ...cidrs].some(isWanted);
  const json = JSON.stringify(suggestion.networkPolicy, null, 2);
  const kept = [...domains, ...cidrs];
  return html`<section class="suggestion" aria-label="Suggested policy">
    <h2>${only ? "Allow this connection" : "Least policy for what was refused"}</h2>
    <p>Programs in the sandbox chose what is in it. Read it before you use it.</p>
    <pre class="diff">${present.mode !== "custom" && html`<div class="cutout">- ${present.mode}</div>`}${kept.map((each) => html`<div>  ${visible(each)}</div>`)}${[...added.domains, ...added.cidrs].map((each) => html`<div class="add">+ ${visible(each)}</div>`)}</pre>
    ${suggestion.notes.map((note) => html`<p class="quiet">${visible(note)}</p>`)}
    ${hasRules && html`<p class="problem">This policy has rules with secret headers, which this page cannot keep. Change it where the rules are.</p>`}
    <div class="acts">
      ${
        hasNews
          ? !hasRules && html`<button type="button" class="primary" onClick=${apply}>Apply to ${visible(name)}</button>`
          : html`<span>${only && !isAllowed ? "No policy can allow this connection." : "The policy allows it already."}</span>`
      }
      <button type="button" onClick=${() => void copy(json)}>Copy as JSON</button>
      <button type="button" onClick=${close}>Close</button>
    </div>
  </section>`;
}

function partsOf(policy: Sandbox["networkPolicy"]) {
  if (policy.mode !== "custom") return { domains: [], cidrs: [], denied: [] };
  const { domains, allowedCidrs: cidrs, deniedCidrs: denied } = policy;
  return { domains: domains.map(({ domain }) => domain), cidrs, denied };
}

/** whether a name or subnet of a policy is the one that a connection needs */
function isAbout({ name, address }: EgressLine, part: string): boolean {
  return part === name || part === `${String(address)}/32` || part === `${String(address)}/128`;
}
