/** What every key does, and the switch that turns the keys off. */

import { html } from "../html.ts";
import { Dialog } from "./dialog.ts";
import { helpOpen, keysOn, turnKeys } from "./keys.ts";

const keys: [string, string][] = [
  ["Ctrl K", "go to a page or a sandbox, or do something"],
  [
    "g, then a letter",
    "overview o, sandboxes s, snapshots n, images i, drives d, egress e, usage u, keys k, events v, audit a, doctor h",
  ],
  ["/", "filter the list"],
  ["j k", "next, previous row"],
  ["x", "select the row"],
  ["Enter", "open the row"],
  ["t", "terminal"],
  ["n", "new sandbox"],
  ["c", "columns of the list"],
  ["s", "stop"],
  ["f", "fork"],
  ["p", "snapshot"],
  ["e", "15 minutes more"],
  ["1 – 9", "tabs of a sandbox"],
  ["[ ]", "previous, next sandbox"],
  ["\\", "second pane"],
  ["Ctrl Shift \\", "leave the terminal"],
  ["?", "this help"],
];

export function Help() {
  const close = () => {
    helpOpen.value = false;
  };
  return html`<${Dialog} title="Keys" close=${close}>
    <dl class="keys">${keys.map(([key, does]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${does}</dd></div>`)}</dl>
    <label class="check"><input type="checkbox" checked=${keysOn.value}
      onChange=${(event: Event) => turnKeys((event.target as HTMLInputElement).checked)} /> Single keys do something</label>
    <div class="acts"><button type="button" onClick=${close}>Close</button></div>
  <//>`;
}
