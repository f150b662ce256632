/** The network policy of a sandbox, to read and to change. A change is shown as a difference before it is applied. */

import { useState } from "preact/hooks";
import { reread, type Sandbox } from "../data/live.ts";
import { changesOf, hasRules, linesIn, linesOf, policyText, ruleWords } from "../egress/policy-lines.ts";
import { html } from "../html.ts";
import { act, say } from "../parts/acts.ts";
import { client } from "../session.ts";
import { visible } from "../text.ts";

type Step = { is: "reading" } | { is: "writing" | "checking"; text: string };

const words = {
  "allow-all": "Programs may reach every public address.",
  "deny-all": "Programs may reach nothing outside.",
  custom: "Programs may reach only what is listed; “!” is before a range that is denied.",
};

export function PolicyView({ value }: { value: Sandbox }) {
  const { name, state, session } = value;
  // A session that is over has a policy of the past, and the next one begins with that of the sandbox.
  const isLive = state === "running" || state === "paused";
  const policy = isLive ? session.networkPolicy : value.networkPolicy;
  const [step, setStep] = useState<Step>({ is: "reading" });
  const [isForLater, setForLater] = useState(true);
  const before = linesOf(policy);
  const later = linesOf(value.networkPolicy);
  const differs = isLive && policyText(later) !== policyText(before);
  const after = step.is === "reading" ? before : linesIn(step.text);
  const changes = changesOf(before, after.length === 0 ? ["deny-all"] : after);
  const isChanged = changes.some(({ change }) => change !== "kept");
  const apply = async () => {
    const networkPolicy = policyText(after);
    const done = await act("Cannot change the policy", async () => {
      if (isLive) await client.call("setNetworkPolicy", { params: { sandbox: name }, body: { networkPolicy } });
      if (!isLive || isForLater)
        await client.call("changeSandbox", { params: { sandbox: name }, body: { networkPolicy } });
      return true;
    });
    if (done) {
      say(`The policy of ${name} has changed`);
      setStep({ is: "reading" });
    }
    await reread(name);
  };
  if (step.is === "writing")
    return html`<section class="block policy" aria-label="Network policy">
      <label for="policy-text">Names, such as <span class="mono">*.github.com</span>, and ranges, one a line;
        ${" "}or <span class="mono">allow-all</span>, or <span class="mono">deny-all</span></label>
      <textarea id="policy-text" class="mono" rows="10" spellcheck=${false} value=${step.text}
        onInput=${(event: InputEvent) => setStep({ is: "writing", text: (event.target as HTMLTextAreaElement).value })}></textarea>
      <div class="acts">
        <button type="button" class="primary" disabled=${!isChanged} onClick=${() => setStep({ is: "checking", text: step.text })}>Show the change…</button>
        <button type="button" onClick=${() => setStep({ is: "reading" })}>Cancel</button>
      </div>
    </section>`;
  if (step.is === "checking")
    return html`<section class="block policy" aria-label="Network policy">
      <h2>Change of the policy of ${visible(name)}</h2>
      <pre class="diff" aria-label="Change">${changes.map(({ line, change }) => html`<div class=${classes[change]}>${marks[change]} ${visible(line)}</div>`)}</pre>
      ${isLive && html`<label class="check"><input type="checkbox" checked=${isForLater} onChange=${(event: Event) => setForLater((event.target as HTMLInputElement).checked)} /> also for later sessions</label>`}
      <div class="acts">
        <button type="button" class="primary" onClick=${() => void apply()}>Apply to ${visible(name)}</button>
        <button type="button" onClick=${() => setStep({ is: "writing", text: step.text })}>Back</button>
      </div>
    </section>`;
  const canEdit = !hasRules(policy);
  return html`<section class="block policy" aria-label="Network policy">
    <p><b class="mono">${policy.mode}</b> ${words[policy.mode]}</p>
    ${
      policy.mode === "custom" &&
      html`<ul class="plain-list mono">
      ${policy.domains.map(
        ({ domain, rules }) =>
          html`<li>${visible(domain)}${rules.map((rule) => html` <span class="quiet">${visible(ruleWords(rule))}</span>`)}</li>`,
      )}
      ${[...policy.allowedCidrs, ...policy.deniedCidrs.map((range) => `!${range}`)].map((each) => html`<li>${visible(each)}</li>`)}
    </ul>`
    }
    ${differs && html`<p class="quiet">Later sessions begin with: <span class="mono">${visible(policyText(later))}</span></p>`}
    ${!isLive && html`<p class="quiet">The next session begins with it.</p>`}
    <div class="acts">${
      canEdit
        ? html`<button type="button" onClick=${() => setStep({ is: "writing", text: before.join("\n") })}>Edit…</button>`
        : html`<p class="quiet">It has rules, whose values the daemon never shows, so this page cannot keep them. Change it where the rules are.</p>`
    }</div>
  </section>`;
}

const marks = { kept: " ", added: "+", removed: "-" };
const classes = { kept: "", added: "add", removed: "cutout" };
