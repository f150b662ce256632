/** The line at the bottom: what runs, what the host has left, and the keys of this page. */

import { useEffect } from "preact/hooks";
import { capacity, watchCapacity } from "../data/capacity.ts";
import { running } from "../data/live.ts";
import { html } from "../html.ts";
import { size } from "../text.ts";
import { keysOn } from "./keys.ts";

const hints = {
  list: [
    ["j k", "move"],
    ["x", "select"],
    ["↵", "open"],
    ["/", "filter"],
    ["?", "keys"],
  ],
  sandbox: [
    ["1–9", "tab"],
    ["[ ]", "previous, next"],
    ["\\", "split"],
    ["?", "keys"],
  ],
};

export function Foot({ isSandbox }: { isSandbox: boolean }) {
  useEffect(watchCapacity, []);
  return html`<footer class="foot">
    <span>${running.value} running</span>
    <${Host} />
    <span class="hints">${
      keysOn.value &&
      hints[isSandbox ? "sandbox" : "list"].map(([key, does]) => html`<span><kbd>${key}</kbd> ${does}</span>`)
    }</span>
  </footer>`;
}

function Host() {
  if (!capacity.value) return null;
  const { machines, disk } = capacity.value;
  const free = disk?.places.map((each) => each.free) ?? [];
  return html`${free.length > 0 && html`<span>disk ${size(Math.min(...free))} free</span>`}
    <span>pool ${machines.hot + machines.warm} ready</span>`;
}
