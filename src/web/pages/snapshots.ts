/** Snapshots as a tree with sandboxes as leaves: where each comes from, when it expires, and what people do with it. */

import { useState } from "preact/hooks";
import type { Output } from "../../client/types.ts";
import { useAnswer } from "../data/answer.ts";
import { everything, now, reread, type Sandbox } from "../data/live.ts";
import { type Member, type Placed, placed } from "../data/snapshot-tree.ts";
import { doing, underWay } from "../data/under-way.ts";
import { html } from "../html.ts";
import { ActButton } from "../parts/act-button.ts";
import { act, copy, say } from "../parts/acts.ts";
import { Unanswered } from "../parts/answered.ts";
import { Dialog, Question } from "../parts/dialog.ts";
import { Rows } from "../parts/rows.ts";
import { Doing, StateMark } from "../parts/state.ts";
import { go, pathOf } from "../router.ts";
import { client } from "../session.ts";
import { type Stretch, touches } from "../tape/tape-scale.ts";
import { date, size, span, visible } from "../text.ts";
import { KeepSnapshot } from "./keep-snapshot.ts";
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

/** A snapshot, or, below the one that it has its files from, a sandbox. */
interface Node extends Member {
  snapshot?: Snapshot;
  sandbox?: Sandbox;
}

interface Act {
  words: string;
  run: () => unknown;
  /** whether a key that may only read may do it */
  isReading?: boolean;
  isDanger?: boolean;
  isOff?: boolean;
  /** the same on the command line */
  cli?: string;
}

export function SnapshotTable({ sandbox, current, stretch }: TableProps) {
  const [asking, setAsking] = useState<
    { what: "delete" | "restore" | "diff" | "keep" | "menu"; about: Snapshot } | undefined
  >(undefined);
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
  const actsOf = (about: Snapshot): Act[] => {
    const ask = (what: "delete" | "restore" | "diff" | "keep") => () => setAsking({ what, about });
    const isElsewhere = current !== undefined && about.id !== current;
    return [
      { words: "Diff", run: ask("diff"), isReading: true, cli: `sandkeep diff ${about.sandbox} ${about.id}` },
      { words: "New sandbox", run: () => create(about) },
      ...(isElsewhere
        ? [{ words: "Go back…", run: ask("restore"), cli: `sandkeep restore ${about.sandbox} ${about.id}` }]
        : []),
      { words: "Keep…", run: ask("keep"), cli: `sandkeep snapshot keep ${about.id}` },
      {
        ...{ words: "Delete…", run: ask("delete"), isDanger: true, isOff: underWay.value.has(about.id) },
        cli: `sandkeep snapshot rm ${about.id}`,
      },
    ];
  };
  const row = ({ item: { snapshot: each, sandbox: leaf }, ...where }: Placed<Node>) => {
    if (leaf) return html`<${Leaf} value=${leaf} where=${where} />`;
    if (!each) return null;
    return html`<tr data-row>
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
      ${actsOf(each).map((one) => html`<${ActOf} act=${one} kind=${one.isDanger ? "small danger wide" : "small wide"} />`)}
      <button type="button" class="small narrow" aria-label=${`Actions of ${visible(each.name ?? each.id)}`} onClick=${() => setAsking({ what: "menu", about: each })}>Actions…</button>
    </div></td>
  </tr>`;
  };
  const all = answer.value?.snapshots;
  const snapshots = all?.filter(({ createdAt }) => touches(stretch, createdAt));
  const close = () => setAsking(undefined);
  return html`<${Unanswered} answer=${answer} />
    ${all && all.length > 0 && snapshots?.length === 0 && html`<p class="empty">No snapshot was made in this time.</p>`}
    ${all?.length === 0 && html`<p class="empty">There is no snapshot. A sandbox that stops and keeps its files makes one; <kbd>p</kbd> on the page of a running sandbox does, too.</p>`}
    ${
      snapshots &&
      snapshots.length > 0 &&
      html`<${Rows} label="Snapshots" kind="snapshots" heads=${heads} items=${placed(nodesOf(snapshots))} keyOf=${({ item }: Placed<Node>) => item.id} row=${row} />`
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
    ${asking?.what === "keep" && html`<${KeepSnapshot} about=${asking.about} close=${close} kept=${answer.reread} />`}
    ${asking?.what === "menu" && html`<${Menu} title=${visible(asking.about.name ?? asking.about.id)} acts=${actsOf(asking.about)} close=${close} />`}
    ${
      asking?.what === "restore" &&
      html`<${Question} title="Go back to this snapshot" verb="Go back" close=${close} act=${() => void restore(asking.about)}
        text=${`The next session of ${visible(asking.about.sandbox)} starts with the files of ${visible(asking.about.name ?? asking.about.id)}. A session that runs now goes on until it is stopped.`} />`
    }`;
}

/** the snapshots, and the sandboxes whose files come from them */
function nodesOf(snapshots: readonly Snapshot[]): Node[] {
  const known = new Set(snapshots.map(({ id }) => id));
  const leaves = everything.value.flatMap((sandbox): Node[] => {
    const { id, state, currentSnapshotId, session, createdAt } = sandbox;
    const isOver = ["stopped", "failed", "aborted"].includes(state);
    const parentId = isOver ? currentSnapshotId : session.sourceSnapshotId;
    return parentId !== null && known.has(parentId) ? [{ id, parentId, createdAt, sandbox }] : [];
  });
  const members = snapshots.map((snapshot): Node => {
    const { id, parentId, createdAt } = snapshot;
    return { id, parentId, createdAt, snapshot };
  });
  return [...members, ...leaves];
}

/** a sandbox that has its files from the snapshot above it */
function Leaf({ value: { name, state, createdAt }, where }: { value: Sandbox; where: Omit<Placed<Node>, "item"> }) {
  return html`<tr data-row class="leaf">
    <th scope="row" class="tree"><${Branch} ...${where} isLeaf /><${StateMark} state=${state} /> <a href=${pathOf("sandboxes", name)}>${visible(name)}</a></th>
    <td class="c-image quiet">${state}</td><td class="c-made wide"></td><td class="num"></td>
    <td class="num" title=${date(createdAt)}>${span(now.value - createdAt)}</td><td class="num wide"></td><td class="c-acts"></td>
  </tr>`;
}

function Menu({ title, acts, close }: { title: string; acts: readonly Act[]; close: () => void }) {
  const closing = (one: Act) => ({
    ...one,
    run() {
      close();
      return one.run();
    },
  });
  return html`<${Dialog} title=${title} close=${close}><div class="menu">${acts.map(
    (one) =>
      html`<${ActOf} act=${closing(one)} kind=${one.isDanger ? "danger" : undefined} />${one.cli === undefined ? html`<span></span>` : html`<button type="button" class="plain cut" title="Copy the command" onClick=${() => void copy(one.cli ?? "")}><code>${one.cli}</code></button>`}`,
  )}</div><//>`;
}

function ActOf({ act: { words, run, isReading, isOff }, kind }: { act: Act; kind: string | undefined }) {
  if (isReading) return html`<button type="button" class=${kind} onClick=${() => void run()}>${words}</button>`;
  return html`<${ActButton} kind=${kind} isOff=${isOff ?? false} act=${run}>${words}<//>`;
}

const step = 14;
const height = 28;

/** the lines from a snapshot to its parent, and those that pass by */
function Branch({ passing, isLast, depth, isLeaf = false }: Omit<Placed<Node>, "item"> & { isLeaf?: boolean }) {
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
    <path class="twig" d=${lines.join("")} />${!isLeaf && html`<path class="knot" d=${`M${own} ${height / 2 - 5}l5 5-5 5-5-5z`} />`}
  </svg>`;
}
