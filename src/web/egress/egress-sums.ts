/** The traffic of a sandbox by host and by port, in the views beside its connections. */

import { hostsOf } from "../data/usage-in.ts";
import { html } from "../html.ts";
import { type Stretch, touches } from "../tape/tape-scale.ts";
import { size, visible } from "../text.ts";
import type { EgressLog } from "./egress-log.ts";

interface SumsProps {
  logs: readonly EgressLog[];
  stretch: Stretch | undefined;
}

interface Row {
  what: string;
  connections: number;
  bytesIn: number;
  bytesOut: number;
}

const most = 500;

export function HostSums({ logs, stretch }: SumsProps) {
  const lines = logs.flatMap((log) => log.lines);
  const rows = stretch
    ? hostsOf(lines.filter(({ at }) => touches(stretch, Number(at))))
    : summed(logs.flatMap(({ hosts }) => hosts.map(({ host, ...rest }) => ({ what: host, ...rest }))));
  const named = rows.map((row) => ({ what: "host" in row ? row.host : row.what, ...row }));
  return html`<${Table} head="Host" rows=${named} none="No program has reached a host" />`;
}

export function PortSums({ logs, stretch }: SumsProps) {
  const rows = summed(logs.flatMap(({ ports }) => ports.map(({ port, ...rest }) => ({ what: String(port), ...rest }))));
  return html`${stretch && html`<p class="note">The daemon does not know when bytes came through a port: these are of all sessions of the tape.</p>`}
    <${Table} head="Port" rows=${rows} none="Nobody has connected to a port from outside" />`;
}

/** of several sessions, most first */
function summed(all: readonly Row[]): Row[] {
  const rows = new Map<string, Row>();
  for (const { what, connections, bytesIn, bytesOut } of all) {
    const row = rows.get(what) ?? { what, connections: 0, bytesIn: 0, bytesOut: 0 };
    row.connections += connections;
    row.bytesIn += bytesIn;
    row.bytesOut += bytesOut;
    rows.set(what, row);
  }
  return [...rows.values()].toSorted((a, b) => b.bytesIn + b.bytesOut - a.bytesIn - a.bytesOut);
}

function Table({ head, rows, none }: { head: string; rows: readonly Row[]; none: string }) {
  if (rows.length === 0) return html`<p class="empty">${none}.</p>`;
  return html`<div class="block"><table class="small-table"><thead><tr><th scope="col">${head}</th><th scope="col" class="num">Connections</th><th scope="col" class="num">In</th><th scope="col" class="num">Out</th></tr></thead>
    <tbody>${rows.slice(0, most).map(
      (each) => html`<tr><th scope="row" class="mono">${visible(each.what)}</th><td class="num">${each.connections}</td>
        <td class="num">${size(each.bytesIn)}</td><td class="num">${size(each.bytesOut)}</td></tr>`,
    )}</tbody></table>
    ${rows.length > most && html`<p class="quiet">and ${rows.length - most} more</p>`}</div>`;
}
