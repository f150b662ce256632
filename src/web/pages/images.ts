/** Images that sandboxes can start from: which sandboxes use each, a new sandbox from one, and deleting the team's own. */

import { useState } from "preact/hooks";
import type { Output } from "../../client/types.ts";
import { useAnswer } from "../data/answer.ts";
import { everything, now } from "../data/live.ts";
import { doing, underWay } from "../data/under-way.ts";
import { html } from "../html.ts";
import { ActButton } from "../parts/act-button.ts";
import { act, copy } from "../parts/acts.ts";
import { Unanswered } from "../parts/answered.ts";
import { Question } from "../parts/dialog.ts";
import { NewSandbox } from "../parts/new-sandbox.ts";
import { Rows } from "../parts/rows.ts";
import { Doing } from "../parts/state.ts";
import { pathOf } from "../router.ts";
import { client } from "../session.ts";
import { date, span, visible } from "../text.ts";

type Image = Output<"listImages">["images"][number];

const heads = [
  { title: "Image", column: "" },
  { title: "Digest", column: "c-image wide" },
  { title: "Owner", column: "c-age" },
  { title: "Used by", column: "c-age num" },
  { title: "Age", column: "c-age num wide" },
  { title: "Actions", column: "c-acts", isUnseen: true },
];

export function ImagesPage() {
  const [asking, setAsking] = useState<{ what: "delete" | "new"; name: string } | undefined>(undefined);
  const answer = useAnswer("images", (signal) => client.call("listImages", { signal }));
  const uses = Map.groupBy(everything.value, ({ image }) => image ?? "");
  const close = () => setAsking(undefined);
  const remove = async (name: string) => {
    await doing(name, "deleting", () =>
      act(`Cannot delete ${name}`, () => client.call("deleteImage", { query: { name } })),
    );
    answer.reread();
  };
  const row = (each: Image) => html`<tr data-row>
    <th scope="row"><button type="button" class="plain" title="Copy the name" onClick=${() => void copy(each.name)}>${visible(each.name)}</button> <${Doing} id=${each.name} /></th>
    <td class="c-image wide mono quiet">${each.digest ?? "—"}</td>
    <td>${each.own ? "team" : "host"}</td>
    <td class="num">${
      uses.has(each.name)
        ? html`<a href=${`${pathOf("sandboxes")}?q=${encodeURIComponent(`image:${each.name}`)}`}>${uses.get(each.name)?.length}</a>`
        : 0
    }</td>
    <td class="num wide" title=${date(each.createdAt)}>${span(now.value - each.createdAt)}</td>
    <td class="c-acts"><div class="acts">
      <${ActButton} kind="small" act=${() => setAsking({ what: "new", name: each.name })}>New sandbox<//>
      ${each.own && html`<${ActButton} kind="small danger wide" isOff=${underWay.value.has(each.name)} act=${() => setAsking({ what: "delete", name: each.name })}>Delete…<//>`}
    </div></td>
  </tr>`;
  const images = answer.value?.images;
  return html`<h1 class="unseen">Images</h1><${Unanswered} answer=${answer} />
    ${images?.length === 0 && html`<p class="empty">There is no image. Sandboxes start from the default one; <code>sandkeep image --help</code> says how to import or build others.</p>`}
    ${images && images.length > 0 && html`<${Rows} label="Images" heads=${heads} items=${images} keyOf=${(each: Image) => each.name} row=${row} />`}
    ${asking?.what === "new" && html`<${NewSandbox} image=${asking.name} close=${close} />`}
    ${
      asking?.what === "delete" &&
      html`<${Question} title="Delete image" verb="Delete" text=${`No new sandbox can start from ${visible(asking.name)}.`}
        close=${close} act=${() => void remove(asking.name)} />`
    }`;
}
