/** Who changed what, newest first, with a filter by key, action, target and outcome. */

import { useEffect, useState } from "preact/hooks";
import type { Output } from "../../client/types.ts";
import { html } from "../html.ts";
import { Unanswered } from "../parts/answered.ts";
import { Icon } from "../parts/icon.ts";
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

export function AuditPage() {
  const [entries, setEntries] = useState<readonly Entry[]>([]);
  const [next, setNext] = useState<string | null | undefined>(undefined);
  const [problem, setProblem] = useState("");
  const [keys, setKeys] = useState<ReadonlyMap<string, string>>(new Map());
  const query = parameter("q");
  const read = async (cursor?: string) => {
    try {
      const page = await client.call("listAudit", { query: { limit: most, ...(cursor !== undefined && { cursor }) } });
      setEntries((old) => (cursor === undefined ? page.entries : [...old, ...page.entries]));
      setNext(page.next);
      setProblem("");
    } catch (error) {
      setProblem(sentence(error));
    }
  };
  useEffect(() => {
    void read();
    // Names say more than ids, where this key may know them.
    client.call("listKeys").then(
      (answer) => setKeys(new Map(answer.keys.map(({ id, name }) => [id, name]))),
      () => undefined,
    );
  }, []);
  const keyName = ({ keyId }: Entry) => (keyId === null ? "—" : (keys.get(keyId) ?? keyId));
  const words = query
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "");
  const found = entries.filter((each) => {
    const text = [each.action, each.target, keyName(each), each.wire, each.address, each.outcome]
      .join(" ")
      .toLowerCase();
    return words.every((word) => text.includes(word));
  });
  const row = (each: Entry) => html`<tr data-row>
    <td class="log-when mono">${date(each.at)}</td>
    <th scope="row" class="log-what">${visible(each.action)}</th>
    <td class="log-more mono">${visible(each.target ?? "")}</td>
    <td class="log-whose">${visible(keyName(each))}</td>
    <td class="log-over wide">${visible(each.wire ?? "")}</td>
    <td class="c-address wide mono quiet">${visible(each.address ?? "")}</td>
    <td class=${each.outcome === "done" ? "log-outcome quiet" : "log-outcome fail"}>${visible(each.outcome)}</td>
  </tr>`;
  return html`<h1 class="unseen">Audit</h1>
    <div class="query"><${Icon} name="search" />
      <input type="search" aria-label="Filter the audit" data-key="/" placeholder="a key, an action, a target, an outcome" value=${query}
        onInput=${(event: InputEvent) => setParameters({ q: (event.target as HTMLInputElement).value })} />
      <span class="res" role="status">${found.length} of ${entries.length}</span>
    </div>
    <${Unanswered} answer=${{ value: next, problem, reread: () => void read() }} />
    ${next !== undefined && found.length === 0 && html`<p class="empty">${entries.length === 0 ? "Nothing was changed yet." : "No entry has these words."}</p>`}
    ${found.length > 0 && html`<${Rows} label="Audit" heads=${heads} items=${found} keyOf=${(each: Entry) => each.id} row=${row} kind="log audit" />`}
    ${next && html`<p class="note"><button type="button" class="small" onClick=${() => void read(next)}>Read older entries</button></p>`}`;
}
