/** How a command ended: its exit code, or that it runs. */

import { html } from "../html.ts";

export function Exit({ exitCode }: { exitCode: number | null }) {
  if (exitCode === null) return html`<span class="exit run">▸<span class="unseen">running</span></span>`;
  return html`<span class=${exitCode === 0 ? "exit" : "exit fail"}>${exitCode}<span class="unseen"> exit code</span></span>`;
}
