/** What people do to the selected sandboxes: stop, fork, tag and delete them. */

import { useState } from "preact/hooks";
import { sandbox } from "../data/live.ts";
import { chosen, selected } from "../data/selection.ts";
import { html } from "../html.ts";
import { ActButton } from "../parts/act-button.ts";
import { actOn, fork, remove, stop } from "../parts/acts.ts";
import { Dialog, Question } from "../parts/dialog.ts";
import { Icon } from "../parts/icon.ts";
import { client } from "../session.ts";
import { counted, visible } from "../text.ts";

export function BulkBar() {
  const [asking, setAsking] = useState<"delete" | "tag" | undefined>(undefined);
  const names = selected.value;
  const clear = () => {
    chosen.value = new Set();
  };
  const forEach = (work: (name: string) => Promise<unknown>) => {
    clear();
    for (const name of names) void work(name);
  };
  const close = () => setAsking(undefined);
  return html`<div class="bulk" role="toolbar" aria-label="Selected sandboxes">
      <b>${names.length} selected</b>
      <${ActButton} act=${() => forEach(stop)}>Stop, keep files <kbd>s</kbd><//>
      <${ActButton} act=${() => forEach((name) => fork(name, { stays: true }))}><${Icon} name="fork" /> Fork<//>
      <${ActButton} act=${() => setAsking("tag")}>Tag…<//>
      <${ActButton} kind="danger" act=${() => setAsking("delete")}>Delete…<//>
      <button type="button" onClick=${clear}>Clear <kbd>esc</kbd></button>
    </div>
    ${asking === "tag" && html`<${TagForm} names=${names} forEach=${forEach} close=${close} />`}
    ${
      asking === "delete" &&
      html`<${Question}
        title="Delete sandboxes" verb=${`Delete ${names.length}`} close=${close}
        text=${`${counted(names.length, "sandbox loses its", "sandboxes lose their")} files and snapshots: ${names.map(visible).join(", ")}`}
        act=${() => forEach(remove)}
      />`
    }`;
}

interface TagProps {
  names: readonly string[];
  forEach: (work: (name: string) => Promise<unknown>) => void;
  close: () => void;
}

/** sets a tag of all selected sandboxes, or takes it away */
function TagForm({ names, forEach, close }: TagProps) {
  const known = new Set(names.flatMap((name) => Object.keys(sandbox(name)?.tags ?? {})));
  const submitted = (event: SubmitEvent) => {
    event.preventDefault();
    if (!(event.target instanceof HTMLFormElement)) return;
    const fields = new FormData(event.target, event.submitter);
    const field = (name: string) => String(fields.get(name) ?? "").trim();
    const tag = field("tag");
    const value = field("verb") === "remove" ? undefined : field("value");
    close();
    forEach((name) => setTag(name, tag, value));
  };
  return html`<${Dialog} title=${`Tag ${counted(names.length, "sandbox", "sandboxes")}`} close=${close}>
    <form class="fields" onSubmit=${submitted}>
      <label for="tag-name">Tag</label>
      <input id="tag-name" name="tag" required maxlength="256" list="tag-names" placeholder="suite" autocomplete="off" />
      <datalist id="tag-names">${[...known].sort().map((tag) => html`<option value=${tag}></option>`)}</datalist>
      <label for="tag-value">Value</label>
      <input id="tag-value" name="value" maxlength="256" placeholder="api" autocomplete="off" />
      <div class="acts">
        <button type="submit" class="primary" name="verb" value="set">Set the tag</button>
        <button type="submit" name="verb" value="remove">Remove it</button>
        <button type="button" onClick=${close}>Cancel</button>
      </div>
    </form>
  <//>`;
}

/** sets a tag, or removes it without a value */
async function setTag(name: string, tag: string, value: string | undefined): Promise<void> {
  await actOn(name, "tagging", "tag", async () => {
    const { tags } = await client.call("getSandbox", { params: { sandbox: name } });
    const { [tag]: _, ...others } = tags;
    const body = { tags: value === undefined ? others : { ...others, [tag]: value } };
    return client.call("changeSandbox", { params: { sandbox: name }, body });
  });
}
