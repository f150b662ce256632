/** Who changed what, newest first; the daemon selects by action, target, key and outcome. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { Input, Output } from "../../client/types.ts";
import { html } from "../html.ts";
import { Unanswered } from "../parts/answered.ts";
import { Rows } from "../parts/rows.ts";
import { parameter, setParameters } from "../router.ts";
import { client, sentence } from "../session.ts";
import { date, visible } from "../text.ts";

type Entry = Output<"listAudit">["entries"][number];

const heads = [
  { title: "Time", column: "log-when" },
  { title: "Action", column: "log-what" },
  { title: "Target", column: "log-more" },
  { title: "Key", column: "log-whose" },
  { title: "Over", column: "log-over wide" },
  { title: "From", column: "c-address wide" },
  { title: "Outcome", column: "log-outcome" },
];

const most = 200;

/** what of the address goes to the daemon */
const filters = ["action", "key", "target", "outcome"] as const;
type Filter = Partial<Record<(typeof filters)[number], string>>;

export function AuditPage() {
  const [entries, setEntries] = useState<readonly Entry[]>([]);
  const [next, setNext] = useState<string | null | undefined>(undefined);
  const [problem, setProblem] = useState("");
  const [keys, setKeys] = useState<ReadonlyMap<string, string>>(new Map());
  const filter: Filter = Object.fromEntries(
    filters.map((name) => [name, parameter(name)]).filter(([, value]) => value !== ""),
  );
  const text = JSON.stringify(filter);
  const latest = useRef(text);
  latest.current = text;
  const read = async (cursor?: string) => {
    try {
      // The daemon refuses a word that it does not know, with a sentence.
      const query = { ...(filter as Wanted), limit: most, ...(cursor !== undefined && { cursor }) };
      const page = await client.call("listAudit", { query });
      if (latest.current !== text) return;
      setEntries((old) => (cursor === undefined ? page.entries : [...old, ...page.entries]));
      setNext(page.next);
      setProblem("");
    } catch (error) {
      if (latest.current === text) setProblem(sentence(error));
    }
  };
  useEffect(() => void read(), [text]);
  useEffect(() => {
    // Names say more than ids, where this key may know them.
    client.call("listKeys").then(
      (answer) => setKeys(new Map(answer.keys.map(({ id, name }) => [id, name]))),
      () => undefined,
    );
  }, []);
  const row = (each: Entry) => html`<tr data-row>
    <td class="log-when mono">${date(each.at)}</td>
    <th scope="row" class="log-what"><${Only} name="action" value=${each.action} /></th>
    <td class="log-more mono"><${Only} name="target" value=${each.target ?? ""} /></td>
    <td class="log-whose"><${Only} name="key" value=${each.keyId ?? ""} shown=${keys.get(each.keyId ?? "") ?? each.keyId ?? "—"} /></td>
    <td class="log-over wide">${visible(each.wire ?? "")}</td>
    <td class="c-address wide mono quiet">${visible(each.address ?? "")}</td>
    <td class=${each.outcome === "done" ? "log-outcome quiet" : "log-outcome fail"}>${visible(each.outcome)}</td>
  </tr>`;
  const isFiltered = Object.keys(filter).length > 0;
  return html`<h1 class="unseen">Audit</h1>
    <${Filters} filter=${filter} keys=${keys} actions=${[...new Set(entries.map(({ action }) => action))].sort()} />
    <p class="note" role="status">${problem === "" && `${entries.length}${next ? " newest" : ""} ${entries.length === 1 ? "entry" : "entries"}`}${isFiltered && html` <button type="button" class="plain" onClick=${() => setParameters(nothing)}>Show all</button>`}</p>
    <${Unanswered} answer=${{ value: next, problem, reread: () => void read() }} />
    ${problem === "" && next !== undefined && entries.length === 0 && html`<p class="empty">${isFiltered ? "No entry is like that." : "Nothing was changed yet."}</p>`}
    ${problem === "" && entries.length > 0 && html`<${Rows} label="Audit" heads=${heads} items=${entries} keyOf=${(each: Entry) => each.id} row=${row} kind="log audit" />`}
    ${problem === "" && next && html`<p class="note"><button type="button" class="small" onClick=${() => void read(next)}>Read older entries</button></p>`}`;
}

type Wanted = NonNullable<NonNullable<Input<"listAudit">["query"]>>;

const nothing = Object.fromEntries(filters.map((name) => [name, ""]));

/** a value of an entry, which selects the entries with the same one */
function Only({ name, value, shown = value }: { name: keyof Filter; value: string; shown?: string }) {
  if (value === "" || parameter(name) === value) return html`${visible(shown)}`;
  return html`<button type="button" class="plain" title="Show only these" onClick=${() => setParameters({ [name]: value })}>${visible(shown)}</button>`;
}

interface FiltersProps {
  filter: Filter;
  /** names by id; empty if this key may not know them */
  keys: ReadonlyMap<string, string>;
  /** those that somebody may choose from */
  actions: readonly string[];
}

function Filters({ filter, keys, actions }: FiltersProps) {
  const change = (name: keyof Filter) => (event: Event) =>
    setParameters({ [name]: (event.target as HTMLInputElement | HTMLSelectElement).value.trim() });
  return html`<form class="run wraps" role="search" onSubmit=${(event: SubmitEvent) => event.preventDefault()}>
    <label for="audit-action">Action</label>
    <input id="audit-action" data-key="/" list="audit-actions" placeholder="sandbox.delete, or sandbox" value=${filter.action ?? ""} onChange=${change("action")} />
    <datalist id="audit-actions">${actions.map((action) => html`<option value=${action}></option>`)}</datalist>
    <label for="audit-target">Target</label>
    <input id="audit-target" placeholder="name or id" value=${filter.target ?? ""} onChange=${change("target")} />
    <label for="audit-key">Key</label>
    ${
      keys.size > 0
        ? html`<select id="audit-key" value=${filter.key ?? ""} onChange=${change("key")}>
            <option value="">any</option>${[...keys].map(([id, name]) => html`<option value=${id}>${visible(name)}</option>`)}
            ${filter.key !== undefined && !keys.has(filter.key) && html`<option value=${filter.key}>${visible(filter.key)}</option>`}
          </select>`
        : html`<input id="audit-key" placeholder="id" value=${filter.key ?? ""} onChange=${change("key")} />`
    }
    <label for="audit-outcome">Outcome</label>
    <select id="audit-outcome" value=${filter.outcome ?? ""} onChange=${change("outcome")}>
      ${outcomes.map(([value, words]) => html`<option value=${value}>${words}</option>`)}
    </select>
  </form>`;
}

const outcomes = [
  ["", "any"],
  ["done", "done"],
  ["failed", "refused or failed"],
  ["forbidden", "forbidden"],
  ["limit", "limit"],
];
