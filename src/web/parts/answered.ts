/** What a view shows in place of an answer that it does not have: that it waits, or the daemon's sentence and a retry. */

import type { Answer } from "../data/answer.ts";
import { html } from "../html.ts";

export function Unanswered({ answer: { value, problem, reread } }: { answer: Answer<unknown> }) {
  if (problem !== "") {
    return html`<p class="empty" role="alert"><span class="problem">${problem}</span> <button type="button" onClick=${reread}>Try again</button></p>`;
  }
  return value === undefined ? html`<p class="waiting" role="status">Loading …</p>` : null;
}
