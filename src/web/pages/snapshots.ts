/** Snapshots as a tree: where each comes from, when it expires, a new sandbox from it, and going back to it. */

import { useState } from "preact/hooks";
import type { Output } from "../../client/types.ts";
import { useAnswer } from "../data/answer.ts";
import { now, reread } from "../data/live.ts";
import { type Placed, placed } from "../data/snapshot-tree.ts";
import { doing, underWay } from "../data/under-way.ts";
import { html } from "../html.ts";
import { ActButton } from "../parts/act-button.ts";
import { act, copy, say } from "../parts/acts.ts";
import { Unanswered } from "../parts/answered.ts";
import { Question } from "../parts/dialog.ts";
import { Rows } from "../parts/rows.ts";
import { Doing } from "../parts/state.ts";
import { go, pathOf } from "../router.ts";
import { client } from "../session.ts";
import { type Stretch, touches } from "../tape/tape-scale.ts";
import { date, size, span, visible } from "../text.ts";
import { SnapshotDiff } from "./snapshot-diff.ts";

export type Snapshot = Output<"getSnapshot">;

export function SnapshotsPage() {
  return html`<h1 class="unseen">Snapshots</h1><${SnapshotTable} />`;
}

const heads = [
  { title: "Snapshot", column: "" },
  { title: "Sandbox", column: "c-image" },
  { title: "Made", column: "c-made wide" },
  { title: "Size", column: "c-age num" },
  { title: "Age", column: "c-age num" },
  { title: "Expires in", column: "c-age num wide" },
  { title: "Actions", column: "c-acts", isUnseen: true },
];

const most = 1000;

interface TableProps {
  /** only those of this sandbox */
  sandbox?: string;
  /** the snapshot that its next session starts from */
  current?: string | null;
  /** only those of this time */
  stretch?: Stretch | undefined;
}

export function SnapshotTable({ sandbox, current, stretch }: TableProps) {
  const [asking, setAsking] = useState<{ what: "delete" | "restore" | "diff"; about: Snapshot } | undefined>(undefined);
  const answer = useAnswer(
    sandbox ?? "",
    (signal) =>
      client.call("listSnapshots", { query: { limit: most, ...(sandbox !== undefined && { sandbox }) }, signal }),
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
    await doing(id, "deleting", () =>
      act("Cannot delete the snapshot", () => client.call("deleteSnapshot", { params: { snapshot: id } })),
    );
    answer.reread();
  };
  const restore = async (about: Snapshot) => {
    const params = { sandbox: about.sandbox };
    const body = { currentSnapshotId: about.id };
    const done = await act("Cannot go back to it", () => client.call("changeSandbox", { params, body }));
    if (done) say(`The next session of ${about.sandbox} starts from ${about.name ?? about.id}`);
    await reread(about.sandbox);
  };
  const row = ({ item: each, ...where }: Placed<Snapshot>) => html`<tr data-row>
    <th scope="row" class="tree">
      <${Branch} ...${where} />
      <button type="button" class="plain" title="Copy the id" onClick=${() => void copy(each.id)}>${visible(each.name ?? each.id)}</button>
      <${Doing} id=${each.id} />${each.id === current && html`<span class="tag">next session starts here</span>`}
    </th>
    <td class="c-image"><a href=${pathOf("sandboxes", each.sandbox)}>${visible(each.sandbox)}</a></td>
    <td class="c-made wide quiet">${each.method}</td>
    <td class="num">${size(each.size)}</td>
    <td class="num" title=${date(each.createdAt)}>${span(now.value - each.createdAt)}</td>
    <td class="num wide">${each.expiresAt === null ? "never" : span(each.expiresAt - now.value)}</td>
    <td class="c-acts"><div class="acts">
      <button type="button" class="small wide" onClick=${() => setAsking({ what: "diff", about: each })}>Diff</button>
      <${ActButton} kind="small" act=${() => create(each)}>New sandbox<//>
      ${current !== undefined && each.id !== current && html`<${ActButton} kind="small wide" act=${() => setAsking({ what: "restore", about: each })}>Go back…<//>`}
      <${ActButton} kind="small danger wide" isOff=${underWay.value.has(each.id)} act=${() => setAsking({ what: "delete", about: each })}>Delete…<//>
    </div></td>
  </tr>`;
  const all = answer.value?.snapshots;
  const snapshots = all?.filter(({ createdAt }) => touches(stretch, createdAt));
  const close = () => setAsking(undefined);
  return html`<${Unanswered} answer=${answer} />
    ${all && all.length > 0 && snapshots?.length === 0 && html`<p class="empty">No snapshot was made in this time.</p>`}
    ${all?.length === 0 && html`<p class="empty">There is no snapshot. A sandbox that stops and keeps its files makes one; <kbd>p</kbd> on the page of a running sandbox does, too.</p>`}
    ${
      snapshots &&
      snapshots.length > 0 &&
      html`<${Rows} label="Snapshots" heads=${heads} items=${placed(snapshots)} keyOf=${({ item }: Placed<Snapshot>) => item.id} row=${row} />`
    }
    ${
      asking?.what === "diff" &&
      html`<${SnapshotDiff} from=${asking.about} others=${all?.filter(({ id }) => id !== asking.about.id)} close=${close} />`
    }
    ${answer.value?.next && html`<p class="note">Only the newest ${most} are shown.</p>`}
    ${
      asking?.what === "delete" &&
      html`<${Question} title="Delete snapshot" verb="Delete" text=${`The files of ${visible(asking.about.name ?? asking.about.id)} are lost.`}
        close=${close} act=${() => void remove(asking.about)} />`
    }
    ${
      asking?.what === "restore" &&
      html`<${Question} title="Go back to this snapshot" verb="Go back" close=${close} act=${() => void restore(asking.about)}
        text=${`The next session of ${visible(asking.about.sandbox)} starts with the files of ${visible(asking.about.name ?? asking.about.id)}. A session that runs now goes on until it is stopped.`} />`
    }`;
}

const step = 14;
const height = 28;

/** the lines from a snapshot to its parent, and those that pass by */
function Branch({ passing, isLast, depth }: Omit<Placed<Snapshot>, "item">) {
  const shown = depth === 0 ? 0 : passing.length + 1;
  const x = (at: number) => at * step + step / 2;
  const own = x(shown);
  const lines = [
    ...passing.flatMap((passes, at) => (passes ? [`M${x(at)} 0V${height}`] : [])),
    ...(depth > 0
      ? [`M${x(shown - 1)} 0V${isLast ? height / 2 : height}M${x(shown - 1)} ${height / 2}H${own - 5}`]
      : []),
  ];
  return html`<svg class="branch" width=${(shown + 1) * step} height=${height} aria-hidden="true">
    <path class="twig" d=${lines.join("")} /><path class="knot" d=${`M${own} ${height / 2 - 5}l5 5-5 5-5-5z`} />
  </svg>`;
}
