/** The form for a new key: what it may do, where, for how long, and how much its sandboxes may use. */

import { useState } from "preact/hooks";
import type { Input } from "../../client/types.ts";
import { html } from "../html.ts";
import { Dialog } from "../parts/dialog.ts";
import { client, isAdmin, sentence, standing } from "../session.ts";
import { visible } from "../text.ts";
import { limitsOf, QuotaFields } from "./quota-fields.ts";

interface NewKeyProps {
  /** gets the secret, which the daemon tells once */
  made: (secret: string) => void;
  close: () => void;
}

const day = 86_400_000;
const lifetimes = [
  ["", "never"],
  ["1", "in a day"],
  ["7", "in a week"],
  ["30", "in 30 days"],
  ["90", "in 90 days"],
  ["365", "in a year"],
];

export function NewKey({ made, close }: NewKeyProps) {
  const [problem, setProblem] = useState("");
  const submitted = async (event: SubmitEvent) => {
    event.preventDefault();
    if (!(event.target instanceof HTMLFormElement)) return;
    const form = new FormData(event.target);
    try {
      const secret = await createKey(form);
      close();
      made(secret);
    } catch (error) {
      // What somebody has filled in stays.
      setProblem(sentence(error));
    }
  };
  return html`<${Dialog} title="New key" close=${close}>
    <form class="fields" onSubmit=${submitted}>
      <label for="key-name">Name</label>
      <input id="key-name" name="name" required maxlength="128" />
      <label for="key-may">May</label>
      <select id="key-may" name="may">
        <option value="change">read and change</option><option value="read">only read</option>
        ${isAdmin() && html`<option value="admin">everything, for every team</option>`}
      </select>
      <label for="key-project">Project</label>
      <select id="key-project" name="project">
        <option value="">all of the team</option>
        ${standing.value?.projects.map(({ id, name }) => html`<option value=${id}>${visible(name)}</option>`)}
      </select>
      <label for="key-policy">Network</label>
      <input id="key-policy" name="policy" placeholder="any; or the widest: deny-all, or domains" maxlength="16384" />
      <label for="key-expires">Expires</label>
      <select id="key-expires" name="expires">${lifetimes.map(([days, words]) => html`<option value=${days}>${words}</option>`)}</select>
      <${QuotaFields} />
      ${problem !== "" && html`<p class="problem" role="alert">${problem}</p>`}
      <div class="acts">
        <button type="submit" class="primary">Create</button>
        <button type="button" onClick=${close}>Cancel</button>
      </div>
    </form>
  <//>`;
}

/** returns the secret; without its quota there is no key */
async function createKey(form: FormData): Promise<string> {
  const limits = limitsOf(form);
  const { key, secret } = await client.call("createKey", { body: bodyOf(form) });
  if (Object.keys(limits).length === 0) return secret;
  try {
    await client.call("setKeyQuota", { params: { key: key.id }, body: limits });
  } catch (error) {
    await client.call("deleteKey", { params: { key: key.id } });
    throw error;
  }
  return secret;
}

function bodyOf(form: FormData): Input<"createKey">["body"] {
  const field = (name: string) => String(form.get(name) ?? "").trim();
  const [may, project, policyCeiling, days] = [
    field("may"),
    field("project"),
    field("policy"),
    Number(field("expires")),
  ];
  return {
    name: field("name"),
    ...(may === "read" && { readOnly: true }),
    ...(may === "admin" && { admin: true }),
    ...(project !== "" && { project }),
    ...(policyCeiling !== "" && { policyCeiling }),
    ...(days > 0 && { expiresAt: Date.now() + days * day }),
  };
}
