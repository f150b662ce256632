/** The team's keys and its quota. The secret of a new key is shown once. */

import { useState } from "preact/hooks";
import type { Output } from "../../client/types.ts";
import { useAnswer } from "../data/answer.ts";
import { now } from "../data/live.ts";
import { doing, underWay } from "../data/under-way.ts";
import { html } from "../html.ts";
import { ActButton } from "../parts/act-button.ts";
import { act, copy } from "../parts/acts.ts";
import { Unanswered } from "../parts/answered.ts";
import { Dialog, Question } from "../parts/dialog.ts";
import { Bar } from "../parts/meters.ts";
import { Rows } from "../parts/rows.ts";
import { Doing } from "../parts/state.ts";
import { client, standing } from "../session.ts";
import { date, memory, span, visible } from "../text.ts";
import { NewKey } from "./new-key.ts";
import { limitsOf, QuotaFields } from "./quota-fields.ts";

type Key = Output<"listKeys">["keys"][number];

const heads = [
  { title: "Key", column: "" },
  { title: "May", column: "c-may" },
  { title: "Last used", column: "c-age num" },
  { title: "Expires", column: "c-age num wide" },
  { title: "Age", column: "c-age num wide" },
  { title: "Actions", column: "c-acts", isUnseen: true },
];

export function KeysPage() {
  const answer = useAnswer("keys", (signal) => client.call("listKeys", { signal }));
  const quota = useAnswer(
    "quota",
    (signal) => client.call("getQuota", { signal }),
    ({ type }) => type.startsWith("session."),
  );
  const [secret, setSecret] = useState("");
  const [asking, setAsking] = useState<{ what: "delete" | "quota"; key: Key } | "new" | undefined>(undefined);
  const close = () => setAsking(undefined);
  const made = (told: string) => {
    setSecret(told);
    answer.reread();
  };
  const remove = async ({ id }: Key) => {
    await doing(id, "deleting", () =>
      act("Cannot delete the key", () => client.call("deleteKey", { params: { key: id } })),
    );
    answer.reread();
  };
  const row = (each: Key) => html`<tr data-row>
    <th scope="row">${visible(each.name)} <span class="tag">…${visible(each.hint)}</span> <${Doing} id=${each.id} /></th>
    <td class="c-may" title=${mayWords(each)}>${mayWords(each)}</td>
    <td class="num">${each.lastUsedAt === null ? "never" : span(now.value - each.lastUsedAt)}</td>
    <td class="num wide">${each.expiresAt === null ? "never" : span(each.expiresAt - now.value)}</td>
    <td class="num wide" title=${date(each.createdAt)}>${span(now.value - each.createdAt)}</td>
    <td class="c-acts"><div class="acts">
      <${ActButton} kind="small" act=${() => setAsking({ what: "quota", key: each })}>Quota…<//>
      <${ActButton} kind="small danger" isOff=${underWay.value.has(each.id)} act=${() => setAsking({ what: "delete", key: each })}>Delete…<//>
    </div></td>
  </tr>`;
  const keys = answer.value?.keys;
  return html`<h1 class="unseen">Keys and quotas</h1>
    ${quota.value && html`<${Quota} quota=${quota.value} />`}
    ${
      // A key with limits may not see the keys, and so not make one.
      answer.problem === "" &&
      html`<div class="ph"><b>Keys</b><${ActButton} kind="small gap" hotkey="n" act=${() => setAsking("new")}>New key… <kbd>n</kbd><//></div>`
    }
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
    ${asking === "new" && html`<${NewKey} made=${made} close=${close} />`}
    ${asking !== undefined && asking !== "new" && asking.what === "quota" && html`<${KeyQuota} of=${asking.key} close=${close} />`}
    ${
      asking !== undefined &&
      asking !== "new" &&
      asking.what === "delete" &&
      html`<${Question} title="Delete key" verb="Delete" text=${`Programs with the key “${visible(asking.key.name)}” are refused from now on.`}
        close=${close} act=${() => void remove(asking.key)} />`
    }`;
}

/** what the sandboxes of a key may use, and use */
function KeyQuota({ of: { id, name }, close }: { of: Key; close: () => void }) {
  const answer = useAnswer(id, (signal) => client.call("getKeyQuota", { params: { key: id }, signal }));
  const submitted = async (event: SubmitEvent) => {
    event.preventDefault();
    if (!(event.target instanceof HTMLFormElement)) return;
    const body = limitsOf(new FormData(event.target));
    close();
    await doing(id, "changing", () =>
      act(`Cannot change the quota of ${name}`, () => client.call("setKeyQuota", { params: { key: id }, body })),
    );
  };
  return html`<${Dialog} title=${`Quota of ${visible(name)}`} close=${close}>
    <${Unanswered} answer=${answer} />
    ${
      answer.value &&
      html`<form class="fields" onSubmit=${submitted}>
        <${QuotaFields} quota=${answer.value} />
        <div class="acts"><button type="submit" class="primary">Save</button>
        <button type="button" onClick=${close}>Cancel</button></div>
      </form>`
    }
  <//>`;
}

function mayWords({ admin, readOnly, projectId, policyCeiling }: Key): string {
  if (admin) return "everything, for every team";
  const words = [readOnly ? "read" : "read and change"];
  const project = standing.value?.projects.find(({ id }) => id === projectId);
  if (projectId !== null) words.push(`project ${visible(project?.name ?? projectId)}`);
  if (policyCeiling !== null) words.push(`network ${visible(policyCeiling)}`);
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
