/** The files that differ between a snapshot and another one, or the sandbox as it is now. */

import { useEffect, useState } from "preact/hooks";
import type { Output } from "../../client/types.ts";
import { html } from "../html.ts";
import { client, sentence } from "../session.ts";
import { size, visible } from "../text.ts";
import type { Snapshot } from "./snapshots.ts";

type Change = Output<"compareSnapshot">["changes"][number];

interface DiffProps {
  from: Snapshot;
  /** snapshots that it can be compared with */
  others: readonly Snapshot[];
  close: () => void;
}

interface Found {
  changes: readonly Change[];
  next: string | null;
  isTruncated: boolean;
}

const letters = { added: "A", changed: "M", removed: "D" };

export function SnapshotDiff({ from, others, close }: DiffProps) {
  const [to, setTo] = useState("");
  const [found, setFound] = useState<Found | undefined>(undefined);
  const [problem, setProblem] = useState("");
  const read = async (cursor?: string) => {
    const query = { ...(to !== "" && { to }), ...(cursor !== undefined && { cursor }) };
    try {
      const page = await client.call("compareSnapshot", { params: { snapshot: from.id }, query });
      setFound((old) => ({
        changes: cursor === undefined ? page.changes : [...(old?.changes ?? []), ...page.changes],
        next: page.next,
        isTruncated: page.truncated || (cursor !== undefined && old?.isTruncated === true),
      }));
    } catch (error) {
      setProblem(sentence(error));
    }
  };
  useEffect(() => {
    setFound(undefined);
    setProblem("");
    void read();
  }, [from.id, to]);
  const count = (change: Change["change"]) => found?.changes.filter((each) => each.change === change).length ?? 0;
  return html`<section class="suggestion difference" aria-label="Difference">
    <div class="ph"><b>${visible(from.name ?? from.id)} →</b>
      <label class="unseen" for="diff-to">Compare with</label>
      <select id="diff-to" value=${to} onChange=${(event: Event) => setTo((event.target as HTMLSelectElement).value)}>
        <option value="">${visible(from.sandbox)} now</option>
        ${others.map(({ id, name }) => html`<option value=${id}>${visible(name ?? id)}</option>`)}
      </select>
      ${found && html`<span class="num"><span class="run">A${count("added")}</span> <span class="busy">M${count("changed")}</span> <span class="fail">D${count("removed")}</span></span>`}
      <button type="button" class="small gap" onClick=${close}>Close</button></div>
    ${problem !== "" && html`<p class="problem" role="alert">${problem}</p>`}
    ${!found && problem === "" && html`<p class="waiting" role="status">Comparing …</p>`}
    ${found?.changes.length === 0 && found.next === null && html`<p class="empty">No file differs.</p>`}
    <ul class="changes">${found?.changes.map((each) => html`<${ChangeRow} key=${each.path} value=${each} />`)}</ul>
    ${found?.next && html`<p class="note"><button type="button" class="small" onClick=${() => void read(found.next ?? undefined)}>Compare further</button></p>`}
    ${found?.isTruncated && html`<p class="note">Folders with more than 20,000 files, and files with very long paths, are left out.</p>`}
  </section>`;
}

function ChangeRow({ value: { path, change, before, after } }: { value: Change }) {
  const kind = { added: "run", changed: "busy", removed: "fail" }[change];
  const [old = 0, present = 0] = [before, after].map((facts) => (facts?.type === "file" ? facts.size : 0));
  const sizes = [before, after].flatMap((facts) => (facts?.type === "file" ? [size(facts.size)] : []));
  const grown = present - old;
  return html`<li>
    <b class=${`mono ${kind}`}>${letters[change]}<span class="unseen"> ${change}</span></b>
    <span class="mono cut">${visible(path)}</span><span class="num quiet">${change === "changed" && `${sizes.join(" → ")} `}${
      grown !== 0 &&
      html`<span class=${grown > 0 ? "run" : "fail"}>${grown > 0 ? "+" : "−"}${size(Math.abs(grown))}</span>`
    }</span>
  </li>`;
}
