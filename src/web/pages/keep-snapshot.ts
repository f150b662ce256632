/** How long a snapshot is kept, and its name. */

import { html } from "../html.ts";
import { act, say } from "../parts/acts.ts";
import { Dialog } from "../parts/dialog.ts";
import { client } from "../session.ts";
import { visible } from "../text.ts";
import type { Snapshot } from "./snapshots.ts";

const day = 24 * 3_600_000;
const choices: [words: string, ms: number][] = [
  ["for ever", 0],
  ["90 days after its last use", 90 * day],
  ["30 days after its last use", 30 * day],
  ["7 days after its last use", 7 * day],
  ["1 day after its last use", day],
];

interface KeepProps {
  about: Snapshot;
  close: () => void;
  /** called when it was changed */
  kept: () => void;
}

export function KeepSnapshot({ about: { id, name }, close, kept }: KeepProps) {
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.target;
    if (!(form instanceof HTMLFormElement)) return;
    const fields = new FormData(form);
    const given = String(fields.get("name") ?? "").trim();
    const body = { expiration: Number(fields.get("for")), ...(given !== "" && given !== name && { name: given }) };
    close();
    const changed = await act("Cannot change the snapshot", () =>
      client.call("changeSnapshot", { params: { snapshot: id }, body }),
    );
    if (changed) say(`${visible(changed.name ?? id)} is kept ${words(changed.expiration)}`);
    kept();
  };
  return html`<${Dialog} title="Keep this snapshot" close=${close}>
    <form class="fields" onSubmit=${submit}>
      <label for="keep-for">Keep it</label>
      <select id="keep-for" name="for">${choices.map(([label, ms]) => html`<option value=${ms}>${label}</option>`)}</select>
      <label for="keep-name">Name</label>
      <input id="keep-name" name="name" maxlength="128" autocomplete="off" value=${name ?? ""} />
      <p class="quiet">A snapshot with a name stays also where its sandbox keeps only its last few.</p>
      <div class="acts">
        <button type="submit" class="primary">Keep</button>
        <button type="button" onClick=${close}>Cancel</button>
      </div>
    </form>
  <//>`;
}

function words(expiration: number): string {
  return choices.find(([, ms]) => ms === expiration)?.[0] ?? "as chosen";
}
