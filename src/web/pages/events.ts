/** What has happened in the project, newest first: what the daemon keeps, and everything since this page was opened. */

import { type Change, changes } from "../data/live.ts";
import { html } from "../html.ts";
import { Rows } from "../parts/rows.ts";
import { pathOf } from "../router.ts";
import { clock, date, visible } from "../text.ts";

const heads = [
  { title: "Time", column: "c-time" },
  { title: "Event", column: "c-image" },
  { title: "Sandbox", column: "c-image" },
  { title: "About", column: "" },
];

export function EventsPage() {
  return html`<h1 class="unseen">Events</h1><${EventTable} events=${changes.value} none="Nothing has happened since the daemon started." />`;
}

export function EventTable({ events, none }: { events: readonly Change[]; none: string }) {
  const row = (each: Change) => {
    const { type, at, sandbox, cursor: _, sandboxId: __, ...rest } = each;
    return html`<tr data-row>
      <td class="c-time mono" title=${date(at)}>${clock(at)}</td>
      <th scope="row" class="c-image">${visible(type)}</th>
      <td class="c-image">${typeof sandbox === "string" && html`<a href=${pathOf("sandboxes", sandbox)}>${visible(sandbox)}</a>`}</td>
      <td class="mono quiet">${visible(
        Object.entries(rest)
          .map(([name, value]) => `${name} ${String(value)}`)
          .join("  "),
      )}</td>
    </tr>`;
  };
  if (events.length === 0) return html`<p class="empty">${none}</p>`;
  return html`<${Rows} label="Events" heads=${heads} items=${events} keyOf=${(each: Change) => each.cursor} row=${row} />`;
}
