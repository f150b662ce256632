/** What has happened in the project, newest first: what the daemon keeps, and everything since this page was opened. */

import { eventIds, eventWords } from "../data/event-words.ts";
import { type Change, changes } from "../data/live.ts";
import { sandboxOf } from "../data/owners.ts";
import { html } from "../html.ts";
import { Rows } from "../parts/rows.ts";
import { pathOf } from "../router.ts";
import { clock, date, visible } from "../text.ts";

const heads = [
  { title: "Time", column: "log-when" },
  { title: "Event", column: "log-what" },
  { title: "Sandbox", column: "log-whose" },
  { title: "About", column: "log-more" },
];

export function EventsPage() {
  return html`<h1 class="unseen">Events</h1><${EventTable} events=${changes.value} none="Nothing has happened since the daemon started." />`;
}

export function EventTable({ events, none }: { events: readonly Change[]; none: string }) {
  const row = (each: Change) => {
    const { type, at } = each;
    const sandbox = sandboxOf(each);
    const words = eventWords(each);
    return html`<tr data-row>
      <td class="log-when mono" title=${date(at)}>${clock(at)}</td>
      <th scope="row" class="log-what">${visible(type)}</th>
      <td class="log-whose">${sandbox !== undefined && html`<a href=${pathOf("sandboxes", sandbox)}>${visible(sandbox)}</a>`}</td>
      <td class="log-more">${words !== "" && html`<span>${visible(words)}</span> `}<span class="tag">${visible(eventIds(each))}</span></td>
    </tr>`;
  };
  if (events.length === 0) return html`<p class="empty">${none}</p>`;
  return html`<${Rows} label="Events" heads=${heads} items=${events} keyOf=${(each: Change) => each.cursor} row=${row} kind="log" />`;
}
