/** The fields of a key's quota. An empty field is no limit. */

import type { Input, Output } from "../../client/types.ts";
import { html } from "../html.ts";

type Limits = NonNullable<Input<"setKeyQuota">["body"]>;
type Name = keyof Limits;

const fields: { name: Name; title: string; step: string }[] = [
  { name: "sandboxes", title: "Sandboxes", step: "1" },
  { name: "vcpus", title: "vCPUs", step: "any" },
  { name: "memory", title: "Memory, MiB", step: "1" },
  { name: "createsPerMinute", title: "Made a minute", step: "1" },
  { name: "disk", title: "Disk, MiB", step: "1" },
];

/** `quota` is the present one */
export function QuotaFields({ quota }: { quota?: Output<"getKeyQuota"> }) {
  return html`<fieldset><legend>Most that its sandboxes may use at once</legend>${fields.map(
    ({ name, title, step }) => html`<label for=${`quota-${name}`}>${title}</label>
      <input id=${`quota-${name}`} name=${name} type="number" min="0" step=${step} placeholder="no limit" defaultValue=${quota?.limits[name] ?? ""} />
      <span class="quiet num">${quota && `${quota.use[name]} in use`}</span>`,
  )}</fieldset>`;
}

export function limitsOf(form: FormData): Limits {
  const given = fields.map(({ name }) => [name, String(form.get(name) ?? "").trim()] as const);
  return Object.fromEntries(given.filter(([, value]) => value !== "").map(([name, value]) => [name, Number(value)]));
}
