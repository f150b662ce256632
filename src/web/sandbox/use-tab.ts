/** How programs use this sandbox, over each API, ready to copy. */

import { useExamples } from "../data/examples.ts";
import { html } from "../html.ts";
import { Unanswered } from "../parts/answered.ts";
import { Snippet } from "../parts/first-sandbox.ts";
import type { TabProps } from "./sandbox-view.ts";

export function UseTab({ value }: TabProps) {
  const answer = useExamples(value);
  return html`<${Unanswered} answer=${answer} />
    <div class="snippets">${answer.value?.map(({ title, text }) => html`<${Snippet} title=${title} text=${text} />`)}</div>`;
}
