/** What has happened in the project, newest first: what the daemon keeps, and everything since this page was opened. */

import { computed } from "@preact/signals";
import { type Change, changes, everything } from "../data/live.ts";
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

/** names of sandboxes by their sessions, since events of commands name only the session */
const owners = computed(() => {
  const found = new Map<unknown, string>();
  for (const { sessionId, sandbox } of changes.value) if (typeof sandbox === "string") found.set(sessionId, sandbox);
  for (const { session, name } of everything.value) found.set(session.id, name);
  return found;
});

/** the name of the sandbox that an event is about */
export function sandboxOf({ sandbox, sessionId }: Change): string | undefined {
  if (typeof sandbox === "string") return sandbox;
  return sessionId === undefined ? undefined : owners.value.get(sessionId);
}

export function EventsPage() {
  return html`<h1 class="unseen">Events</h1><${EventTable} events=${changes.value} none="Nothing has happened since the daemon started." />`;
}

export function EventTable({ events, none }: { events: readonly Change[]; none: string }) {
  const row = (each: Change) => {
    const { type, at, sandbox: _, cursor: __, sandboxId: ___, ...rest } = each;
    const sandbox = sandboxOf(each);
    return html`<tr data-row>
      <td class="c-time mono" title=${date(at)}>${clock(at)}</td>
      <th scope="row" class="c-image">${visible(type)}</th>
      <td class="c-image">${sandbox !== undefined && html`<a href=${pathOf("sandboxes", sandbox)}>${visible(sandbox)}</a>`}</td>
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
