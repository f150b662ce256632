/** What happened to this sandbox, as far as the daemon keeps events, newest first. */

import { changes } from "../data/live.ts";
import { html } from "../html.ts";
import { EventTable } from "../pages/events.ts";
import { chosenStretch } from "../tape/tape.ts";
import { touches } from "../tape/tape-scale.ts";
import type { TabProps } from "./sandbox-view.ts";

export function EventsTab({ value: { name }, history }: TabProps) {
  const sessions = new Set(history.value?.sessions.map(({ id }) => id));
  const stretch = chosenStretch();
  const events = changes.value.filter(
    ({ sandbox, sessionId, at }) =>
      (sandbox === name || (typeof sessionId === "string" && sessions.has(sessionId))) && touches(stretch, at),
  );
  return html`<${EventTable} events=${events} none=${`The daemon keeps no event of this sandbox${stretch ? " in this time" : ""}.`} />`;
}
