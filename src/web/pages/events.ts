/** What has happened in the project since this page was opened, newest first. */

import { type Change, changes } from "../data/live.ts";
import { html } from "../html.ts";
import { Rows } from "../parts/rows.ts";
import { pathOf } from "../router.ts";
import { clock, visible } from "../text.ts";

const heads = [
  { title: "Time", column: "c-age" },
  { title: "Event", column: "c-image" },
  { title: "Sandbox", column: "c-image" },
  { title: "About", column: "" },
];

export function EventsPage() {
  const row = (each: Change) => {
    const { type, at, sandbox, cursor: _, sandboxId: __, ...rest } = each;
    return html`<tr data-row>
      <td class="mono">${clock(at)}</td>
      <th scope="row" class="c-image">${visible(type)}</th>
      <td class="c-image">${typeof sandbox === "string" && html`<a href=${pathOf("sandboxes", sandbox)}>${visible(sandbox)}</a>`}</td>
      <td class="mono">${Object.entries(rest).map(([name, value]) => visible(`${name}=${String(value)} `))}</td>
    </tr>`;
  };
  return html`<h1 class="unseen">Events</h1>
    ${
      changes.value.length === 0
        ? html`<p class="empty">Nothing has happened since this page was opened.</p>`
        : html`<${Rows} label="Events" heads=${heads} items=${changes.value} keyOf=${(each: Change) => each.cursor} row=${row} />`
    }`;
}
