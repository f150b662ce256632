/** Drives: durable volumes that sandboxes mount. Make one, copy one, delete one. */

import { useState } from "preact/hooks";
import type { Output } from "../../client/types.ts";
import { useAnswer } from "../data/answer.ts";
import { now } from "../data/live.ts";
import { doing, underWay } from "../data/under-way.ts";
import { html } from "../html.ts";
import { ActButton } from "../parts/act-button.ts";
import { act } from "../parts/acts.ts";
import { Unanswered } from "../parts/answered.ts";
import { Question } from "../parts/dialog.ts";
import { Rows } from "../parts/rows.ts";
import { Doing } from "../parts/state.ts";
import { pathOf } from "../router.ts";
import { client } from "../session.ts";
import { date, memory, size, span, visible } from "../text.ts";

type Drive = Output<"getDrive">;

const heads = [
  { title: "Drive", column: "" },
  { title: "Written by", column: "c-image" },
  { title: "Size", column: "c-age num" },
  { title: "Age", column: "c-age num wide" },
  { title: "Actions", column: "c-acts", isUnseen: true },
];

export function DrivesPage() {
  const [asking, setAsking] = useState<Drive | undefined>(undefined);
  const answer = useAnswer(
    "drives",
    (signal) => client.call("listDrives", { query: { limit: 1000 }, signal }),
    ({ type }) => type.startsWith("drive.") || type.startsWith("session."),
  );
  const create = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.target;
    if (!(form instanceof HTMLFormElement)) return;
    const drive = String(new FormData(form).get("name") ?? "");
    const made = await act("Cannot make the drive", () => client.call("putDrive", { params: { drive }, body: {} }));
    if (made) form.reset();
  };
  const copyOf = (name: string) => {
    const taken = new Set(answer.value?.drives.map((each) => each.name));
    let number = 2;
    while (taken.has(`${name}-${number}`)) number++;
    return `${name}-${number}`;
  };
  const fork = ({ id, name }: Drive) =>
    doing(id, "copying", () =>
      act(`Cannot copy ${name}`, () =>
        client.call("forkDrive", { params: { drive: name }, body: { name: copyOf(name) } }),
      ),
    );
  const remove = ({ id, name }: Drive) =>
    doing(id, "deleting", () =>
      act(`Cannot delete ${name}`, () => client.call("deleteDrive", { params: { drive: name } })),
    );
  const row = (each: Drive) => html`<tr data-row>
    <th scope="row" class="mono">${visible(each.name)} <${Doing} id=${each.id} /></th>
    <td class="c-image">${each.sandbox === null ? "—" : html`<a href=${pathOf("sandboxes", each.sandbox)}>${visible(each.sandbox)}</a>`}</td>
    <td class="num">${limitWords(each.maxSize)}</td>
    <td class="num wide" title=${date(each.createdAt)}>${span(now.value - each.createdAt)}</td>
    <td class="c-acts"><div class="acts">
      <${ActButton} kind="small" isOff=${underWay.value.has(each.id)} act=${() => fork(each)}>Copy<//>
      <${ActButton} kind="small danger" isOff=${underWay.value.has(each.id)} act=${() => setAsking(each)}>Delete…<//>
    </div></td>
  </tr>`;
  const drives = answer.value?.drives;
  return html`<h1 class="unseen">Drives</h1>
    <form class="run" onSubmit=${create}>
      <label for="drive-name">New drive</label>
      <input id="drive-name" name="name" required placeholder="name" pattern="[A-Za-z0-9][A-Za-z0-9._\\-]{0,127}" />
      <${ActButton}>Create<//>
    </form>
    <${Unanswered} answer=${answer} />
    ${drives?.length === 0 && html`<p class="empty">There is no drive. A drive keeps files apart from sandboxes, which mount it.</p>`}
    ${drives && drives.length > 0 && html`<${Rows} label="Drives" heads=${heads} items=${drives} keyOf=${(each: Drive) => each.id} row=${row} kind="drives" />`}
    ${answer.value?.next && html`<p class="note">Only the newest 1000 are shown.</p>`}
    ${
      asking &&
      html`<${Question} title="Delete drive" verb="Delete" text=${`The files of ${visible(asking.name)} are lost.`}
        close=${() => setAsking(undefined)} act=${() => void remove(asking)} />`
    }`;
}

/** in the units that people give it in; other clients may choose a size that has no whole number of these */
function limitWords(bytes: number): string {
  return bytes % 2 ** 20 === 0 ? memory(bytes / 2 ** 20) : size(bytes);
}
