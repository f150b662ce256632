/** Images that sandboxes can start from. */

import type { Output } from "../../client/types.ts";
import { useAnswer } from "../data/answer.ts";
import { all, now } from "../data/live.ts";
import { html } from "../html.ts";
import { copy } from "../parts/acts.ts";
import { Unanswered } from "../parts/answered.ts";
import { Rows } from "../parts/rows.ts";
import { client } from "../session.ts";
import { date, span, visible } from "../text.ts";

type Image = Output<"listImages">["images"][number];

const heads = [
  { title: "Image", column: "" },
  { title: "Digest", column: "c-image wide" },
  { title: "Owner", column: "c-age" },
  { title: "Used by", column: "c-age num" },
  { title: "Age", column: "c-age num" },
];

export function ImagesPage() {
  const answer = useAnswer("images", (signal) => client.call("listImages", { signal }));
  const uses = Map.groupBy(all(), ({ image }) => image ?? "");
  const row = (each: Image) => html`<tr data-row>
    <th scope="row"><button type="button" class="plain" title="Copy the name" onClick=${() => void copy(each.name)}>${visible(each.name)}</button></th>
    <td class="c-image wide mono">${each.digest ?? "—"}</td>
    <td>${each.own ? "team" : "host"}</td>
    <td class="num">${uses.get(each.name)?.length ?? 0}</td>
    <td class="num" title=${date(each.createdAt)}>${span(now.value - each.createdAt)}</td>
  </tr>`;
  const images = answer.value?.images;
  return html`<h1 class="unseen">Images</h1><${Unanswered} answer=${answer} />
    ${images?.length === 0 && html`<p class="empty">There is no image.</p>`}
    ${images && images.length > 0 && html`<${Rows} label="Images" heads=${heads} items=${images} keyOf=${(each: Image) => each.name} row=${row} />`}`;
}
