/** The state of a session as shape, colour and word: none of them stands alone. */

import type { Sandbox } from "../data/live.ts";
import { underWay } from "../data/under-way.ts";
import { html } from "../html.ts";

type State = Sandbox["state"];

const kinds: Record<State, string> = {
  pending: "busy",
  running: "run",
  paused: "pause",
  snapshotting: "snap",
  stopping: "busy",
  stopped: "stop",
  failed: "fail",
  aborted: "fail",
};

const shapes: Record<string, string> = {
  run: "M6 1.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9z",
  busy: "M6 1a5 5 0 1 0 0 10a5 5 0 1 0 0-10zm0 1.6v6.8a3.4 3.4 0 0 1 0-6.8z",
  pause: "M3 2h2v8H3zM7 2h2v8H7z",
  snap: "M6 1l5 5-5 5-5-5z",
  stop: "M6 1.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9zm0 1.4a3.1 3.1 0 1 1 0 6.2a3.1 3.1 0 1 1 0-6.2z",
  fail: "M2.6 1.4L6 4.8l3.4-3.4 1.2 1.2L7.2 6l3.4 3.4-1.2 1.2L6 7.2l-3.4 3.4-1.2-1.2L4.8 6 1.4 2.6z",
};

/** the shape, with its word for readers of the screen; what this page does to the sandbox comes before its state */
export function StateMark({ state, name = "" }: { state: State; name?: string }) {
  const what = underWay.value.get(name);
  const kind = what === undefined ? kinds[state] : "busy";
  return html`<svg class=${`mark ${kind}`} viewBox="0 0 12 12" role="img" aria-label=${what ?? state}>
    <path fill-rule="evenodd" d=${shapes[kind]} />
  </svg>`;
}

export function StateWord({ state, name = "" }: { state: State; name?: string }) {
  const what = underWay.value.get(name);
  return html`<span class=${`word ${what === undefined ? kinds[state] : "busy"}`}>${what ?? state}</span>`;
}

/** what this page does to another thing than a sandbox, and the daemon has not answered yet */
export function Doing({ id }: { id: string }) {
  const what = underWay.value.get(id);
  if (what === undefined) return null;
  return html`<svg class="mark busy" viewBox="0 0 12 12" role="img" aria-label=${what}><path fill-rule="evenodd" d=${shapes.busy} /></svg>`;
}
