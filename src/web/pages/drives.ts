/** Drives: durable volumes that sandboxes mount. */

import type { Output } from "../../client/types.ts";
import { useAnswer } from "../data/answer.ts";
import { now } from "../data/live.ts";
import { html } from "../html.ts";
import { Unanswered } from "../parts/answered.ts";
import { Rows } from "../parts/rows.ts";
import { pathOf } from "../router.ts";
import { client } from "../session.ts";
import { date, size, span, visible } from "../text.ts";

type Drive = Output<"getDrive">;

const heads = [
  { title: "Drive", column: "" },
  { title: "Written by", column: "c-image" },
  { title: "Size", column: "c-age num" },
  { title: "Age", column: "c-age num" },
];

export function DrivesPage() {
  const answer = useAnswer(
    "drives",
    (signal) => client.call("listDrives", { query: { limit: 100 }, signal }),
    ({ type }) => type.startsWith("drive.") || type.startsWith("session."),
  );
  const row = (each: Drive) => html`<tr data-row>
    <th scope="row" class="mono">${visible(each.name)}</th>
    <td class="c-image">${each.sandbox === null ? "—" : html`<a href=${pathOf("sandboxes", each.sandbox)}>${visible(each.sandbox)}</a>`}</td>
    <td class="num">${size(each.maxSize)}</td>
    <td class="num" title=${date(each.createdAt)}>${span(now.value - each.createdAt)}</td>
  </tr>`;
  const drives = answer.value?.drives;
  return html`<h1 class="unseen">Drives</h1><${Unanswered} answer=${answer} />
    ${drives?.length === 0 && html`<p class="empty">There is no drive.</p>`}
    ${drives && drives.length > 0 && html`<${Rows} label="Drives" heads=${heads} items=${drives} keyOf=${(each: Drive) => each.id} row=${row} />`}
    ${answer.value?.next && html`<p class="block">Only the newest 100 are shown.</p>`}`;
}
