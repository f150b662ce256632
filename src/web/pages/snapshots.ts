/** Snapshots: where each comes from, when it expires, and a new sandbox from it. */

import { useState } from "preact/hooks";
import type { Output } from "../../client/types.ts";
import { useAnswer } from "../data/answer.ts";
import { now, reread } from "../data/live.ts";
import { html } from "../html.ts";
import { act, copy } from "../parts/acts.ts";
import { Unanswered } from "../parts/answered.ts";
import { Question } from "../parts/dialog.ts";
import { Rows } from "../parts/rows.ts";
import { go, pathOf } from "../router.ts";
import { client } from "../session.ts";
import { date, size, span, visible } from "../text.ts";

type Snapshot = Output<"getSnapshot">;

export function SnapshotsPage() {
  return html`<h1 class="unseen">Snapshots</h1><${SnapshotTable} />`;
}

const heads = [
  { title: "Snapshot", column: "" },
  { title: "Sandbox", column: "c-image" },
  { title: "Parent", column: "c-image wide" },
  { title: "Size", column: "c-age num" },
  { title: "Made", column: "c-age num" },
  { title: "Expires", column: "c-age num wide" },
  { title: "New sandbox", column: "c-act" },
  { title: "Delete", column: "c-act wide" },
];

export function SnapshotTable({ sandbox, current }: { sandbox?: string; current?: string | null }) {
  const [asking, setAsking] = useState<Snapshot | undefined>(undefined);
  const answer = useAnswer(
    sandbox ?? "",
    (signal) =>
      client.call("listSnapshots", { query: { limit: 100, ...(sandbox !== undefined && { sandbox }) }, signal }),
    ({ type }) => type.startsWith("snapshot."),
  );
  const create = async ({ id }: Snapshot) => {
    const body = { source: { kind: "snapshot" as const, snapshotId: id } };
    const made = await act("Cannot create a sandbox from it", () => client.call("createSandbox", { body }));
    if (!made) return;
    await reread(made.name);
    go(pathOf("sandboxes", made.name));
  };
  const remove = async ({ id }: Snapshot) => {
    await act("Cannot delete the snapshot", () => client.call("deleteSnapshot", { params: { snapshot: id } }));
    answer.reread();
  };
  const row = (each: Snapshot) => html`<tr data-row>
    <th scope="row" class="mono">
      <button type="button" class="plain" title="Copy the id" onClick=${() => void copy(each.id)}>${visible(each.name ?? each.id)}</button>
      ${each.id === current && html`<span class="tag">next session starts here</span>`}
    </th>
    <td class="c-image"><a href=${pathOf("sandboxes", each.sandbox)}>${visible(each.sandbox)}</a></td>
    <td class="c-image wide mono">${each.parentId ?? "—"}</td>
    <td class="num">${size(each.size)}</td>
    <td class="num" title=${date(each.createdAt)}>${span(now.value - each.createdAt)}</td>
    <td class="num wide">${each.expiresAt === null ? "never" : span(each.expiresAt - now.value)}</td>
    <td><button type="button" onClick=${() => void create(each)}>New sandbox</button></td>
    <td class="wide"><button type="button" class="danger" onClick=${() => setAsking(each)}>Delete…</button></td>
  </tr>`;
  const snapshots = answer.value?.snapshots;
  return html`<${Unanswered} answer=${answer} />
    ${snapshots?.length === 0 && html`<p class="empty">There is no snapshot.</p>`}
    ${snapshots && snapshots.length > 0 && html`<${Rows} label="Snapshots" heads=${heads} items=${snapshots} keyOf=${(each: Snapshot) => each.id} row=${row} />`}
    ${answer.value?.next && html`<p class="block">Only the newest 100 are shown.</p>`}
    ${
      asking &&
      html`<${Question} title="Delete snapshot" verb="Delete" text=${`The files of ${visible(asking.name ?? asking.id)} are lost.`}
        close=${() => setAsking(undefined)} act=${() => void remove(asking)} />`
    }`;
}
