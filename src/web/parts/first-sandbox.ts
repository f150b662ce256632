/** What people see before their first sandbox: ways to make one, ready to copy. */

import { useExamples } from "../data/examples.ts";
import { html } from "../html.ts";
import { copy } from "./acts.ts";
import { Icon } from "./icon.ts";

/** ways that fit on the page without scrolling */
const most = 3;

export function FirstSandbox() {
  const { value = [] } = useExamples();
  return html`<div class="first">
    <h2>There is no sandbox yet</h2>
    <p>Make one with the button above, or with a program. This page fills as soon as one exists.</p>
    ${value.slice(0, most).map(({ title, text }) => html`<${Snippet} title=${title} text=${text} />`)}
  </div>`;
}

export function Snippet({ title, text }: { title: string; text: string }) {
  return html`<section class="snippet" aria-label=${title}>
    <div class="ph"><b>${title}</b><button type="button" class="gap" onClick=${() => void copy(text)}><${Icon} name="copy" /> Copy</button></div>
    <pre role="group" tabindex="0" aria-label=${`Lines for ${title}`}>${text}</pre>
  </section>`;
}
