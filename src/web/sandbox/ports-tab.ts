/** The ports of a sandbox that clients can reach, what went through each, and a field to open another one. */

import { useAnswer } from "../data/answer.ts";
import { now, reread } from "../data/live.ts";
import { readLogs } from "../egress/egress-log.ts";
import { html } from "../html.ts";
import { act, copy } from "../parts/acts.ts";
import { client } from "../session.ts";
import { counted, size } from "../text.ts";
import type { TabProps } from "./sandbox-view.ts";

/** ms between two reads while the sandbox runs */
const every = 5000;

export function PortsTab({ value: { name, ports, state, session } }: TabProps) {
  const turn = state === "running" ? Math.floor(now.value / every) : 0;
  const { value: read } = useAnswer(session.id, () => readLogs([session]), undefined, turn);
  const traffic = new Map(read?.logs.flatMap((log) => log.ports).map((each) => [each.port, each]));
  const open = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.target;
    if (!(form instanceof HTMLFormElement)) return;
    const port = String(new FormData(form).get("port") ?? "");
    await act(`Cannot open port ${port}`, () => client.call("openPort", { params: { sandbox: name, port } }));
    form.reset();
    await reread(name);
  };
  const close = async (port: string) => {
    await act(`Cannot close port ${port}`, () => client.call("closePort", { params: { sandbox: name, port } }));
    await reread(name);
  };
  return html`<form class="run" onSubmit=${open}>
      <label for="port">Port</label>
      <input id="port" name="port" type="number" min="1" max="65535" required />
      <button type="submit">Open</button>
      <span class="quiet">A port with an address can be reached by everybody who knows it.</span>
    </form>
    ${ports.length === 0 && html`<p class="empty">No port has an address. Open the port that a program in the sandbox listens on.</p>`}
    ${ports.map(
      ({ port, url }) => html`<div class="ph wraps" role="group" aria-label=${`Port ${port}`}>
        <b class="mono">${port}</b>
        ${
          url === null
            ? html`<span class="quiet">closed</span>`
            : html`<a class="mono cut" href=${url} target="_blank" rel="noopener noreferrer">${url} ↗</a>
                <${Through} traffic=${traffic.get(port)} />
                <button type="button" class="small r" onClick=${() => void copy(url)}>Copy</button>
                <button type="button" class="small danger" onClick=${() => void close(String(port))}>Close</button>`
        }
      </div>`,
    )}`;
}

/** the connections of the present session from outside */
function Through({ traffic }: { traffic: { connections: number; bytesIn: number; bytesOut: number } | undefined }) {
  if (!traffic) return html`<span class="quiet">no connection yet</span>`;
  const { connections, bytesIn, bytesOut } = traffic;
  return html`<span class="num">${counted(connections, "connection")} · ${size(bytesIn)} in · ${size(bytesOut)} out</span>`;
}
