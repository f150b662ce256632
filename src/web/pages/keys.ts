/** The team's keys and its quota. The secret of a new key is shown once. */

import { useState } from "preact/hooks";
import type { Output } from "../../client/types.ts";
import { useAnswer } from "../data/answer.ts";
import { now } from "../data/live.ts";
import { html } from "../html.ts";
import { act, copy } from "../parts/acts.ts";
import { Unanswered } from "../parts/answered.ts";
import { Dialog, Question } from "../parts/dialog.ts";
import { Bar } from "../parts/meters.ts";
import { Rows } from "../parts/rows.ts";
import { client } from "../session.ts";
import { date, memory, span, visible } from "../text.ts";

type Key = Output<"listKeys">["keys"][number];

const heads = [
  { title: "Key", column: "" },
  { title: "May", column: "c-may" },
  { title: "Last used", column: "c-age num" },
  { title: "Expires", column: "c-age num wide" },
  { title: "Age", column: "c-age num wide" },
  { title: "Delete", column: "c-act" },
];

export function KeysPage() {
  const answer = useAnswer("keys", (signal) => client.call("listKeys", { signal }));
  const quota = useAnswer(
    "quota",
    (signal) => client.call("getQuota", { signal }),
    ({ type }) => type.startsWith("session."),
  );
  const [secret, setSecret] = useState("");
  const [asking, setAsking] = useState<Key | undefined>(undefined);
  const create = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.target;
    if (!(form instanceof HTMLFormElement)) return;
    const fields = new FormData(form);
    const body = { name: String(fields.get("name") ?? ""), readOnly: fields.get("readOnly") !== null };
    const made = await act("Cannot create a key", () => client.call("createKey", { body }));
    if (!made) return;
    form.reset();
    setSecret(made.secret);
    answer.reread();
  };
  const remove = async ({ id }: Key) => {
    await act("Cannot delete the key", () => client.call("deleteKey", { params: { key: id } }));
    answer.reread();
  };
  const row = (each: Key) => html`<tr data-row>
    <th scope="row">${visible(each.name)} <span class="tag">…${visible(each.hint)}</span></th>
    <td class="c-may">${mayWords(each)}</td>
    <td class="num">${each.lastUsedAt === null ? "never" : span(now.value - each.lastUsedAt)}</td>
    <td class="num wide">${each.expiresAt === null ? "never" : span(each.expiresAt - now.value)}</td>
    <td class="num wide" title=${date(each.createdAt)}>${span(now.value - each.createdAt)}</td>
    <td><button type="button" class="small danger" onClick=${() => setAsking(each)}>Delete…</button></td>
  </tr>`;
  const keys = answer.value?.keys;
  return html`<h1 class="unseen">Keys and quotas</h1>
    ${quota.value && html`<${Quota} quota=${quota.value} />`}
    <form class="run" onSubmit=${create}>
      <label for="key-name">New key</label><input id="key-name" name="name" required maxlength="128" placeholder="name" />
      <label class="check"><input type="checkbox" name="readOnly" /> read only</label>
      <button type="submit">Create</button>
    </form>
    <${Unanswered} answer=${answer} />
    ${keys && html`<${Rows} label="Keys" heads=${heads} items=${keys} keyOf=${(each: Key) => each.id} row=${row} />`}
    ${
      secret !== "" &&
      html`<${Dialog} title="The new key" close=${() => setSecret("")}>
        <p>It is shown only now.</p><p class="mono">${secret}</p>
        <div class="acts"><button type="button" class="primary" onClick=${() => void copy(secret)}>Copy</button>
        <button type="button" onClick=${() => setSecret("")}>Close</button></div>
      <//>`
    }
    ${
      asking &&
      html`<${Question} title="Delete key" verb="Delete" text=${`Programs with the key “${visible(asking.name)}” are refused from now on.`}
        close=${() => setAsking(undefined)} act=${() => void remove(asking)} />`
    }`;
}

function mayWords({ admin, readOnly, projectId, policyCeiling }: Key): string {
  if (admin) return "everything, for every team";
  const words = [readOnly ? "read" : "read and change"];
  if (projectId !== null) words.push("one project");
  if (policyCeiling !== null) words.push("limited network");
  return words.join(", ");
}

function Quota({ quota: { limits, use } }: { quota: Output<"getQuota"> }) {
  const rows = [
    { title: "running sandboxes", used: use.sandboxes, limit: limits.sandboxes },
    { title: "vCPUs", used: use.vcpus, limit: limits.vcpus },
    { title: "memory", used: use.memory, limit: limits.memory, words: memory },
    { title: "made in a minute", used: use.createsPerMinute, limit: limits.createsPerMinute },
    { title: "disk", used: use.disk, limit: limits.disk, words: memory },
    { title: "disk of images", used: use.imageDisk, limit: limits.imageDisk, words: memory },
  ];
  return html`<dl class="figures">${rows.map(
    ({ title, used, limit, words = String }) => html`<div><dt>${title}</dt>
      <dd>${words(used)}<small>${limit === null ? " no limit" : ` / ${words(limit)}`}</small></dd>
      ${limit !== null && html`<${Bar} part=${used / Math.max(1, limit)} isLow=${used / Math.max(1, limit) > 0.85} />`}</div>`,
  )}</dl>`;
}
