/**
 * The palette: goes to a page or a sandbox by a part of its name, does something with the sandbox of this page or with the
 * selected ones, and with ">" runs a command in the sandbox of this page.
 */

import { useState } from "preact/hooks";
import { known, names, sandbox } from "../data/live.ts";
import { selected } from "../data/selection.ts";
import { html } from "../html.ts";
import { pages } from "../pages/pages.ts";
import { go, parts, pathOf, setParameters } from "../router.ts";
import { client, isAdmin, whyReadOnly } from "../session.ts";
import { visible } from "../text.ts";
import { act, extend, fork, resume, snapshot, stop } from "./acts.ts";
import { Dialog } from "./dialog.ts";
import { paletteOpen } from "./open-parts.ts";

const most = 12;
const quarterHour = 15 * 60_000;

interface Choice {
  label: string;
  kind: string;
  run: () => unknown;
}

export function Palette() {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const close = () => {
    paletteOpen.value = false;
  };
  const found = choicesFor(text);
  const open = (choice: Choice | undefined) => {
    if (!choice) return;
    close();
    choice.run();
  };
  const pressed = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) setAt((at + step + found.length) % Math.max(1, found.length));
    else if (event.key === "Enter") open(found[at]);
    else return;
    event.preventDefault();
  };
  return html`<${Dialog} title="Go to, or do" close=${close}>
    <input
      class="find" role="combobox" aria-expanded="true" aria-controls="found" aria-label="Page, sandbox or action"
      aria-activedescendant=${found.length > 0 ? `found-${at}` : undefined} placeholder="a name, an action, or > and a command"
      value=${text} onKeyDown=${pressed} spellcheck=${false} autocomplete="off"
      onInput=${(event: InputEvent) => {
        setText((event.target as HTMLInputElement).value);
        setAt(0);
      }}
    />
    <ul id="found" role="listbox" aria-label="Found">
      ${found.map(
        (each, index) => html`<li
          id=${`found-${index}`} role="option" aria-selected=${index === at ? "true" : "false"} onClick=${() => open(each)}
        ><span class="cut">${visible(each.label)}</span><em>${each.kind}</em></li>`,
      )}
    </ul>
    ${found.length === 0 && html`<p class="quiet">Nothing has this name.</p>`}
  <//>`;
}

function choicesFor(text: string): Choice[] {
  const here = hereOf();
  if (text.startsWith(">"))
    return here === undefined || whyReadOnly() !== undefined ? [] : [runIn(here, text.slice(1).trim())];
  const wanted = text.toLowerCase().trim();
  const isWanted = ({ label }: { label: string }) => label.toLowerCase().includes(wanted);
  const actions = actionsOn(here === undefined ? selected.value : [here]);
  const places = pages
    .filter(({ isForAdmins }) => !isForAdmins || isAdmin())
    .map(({ path, title }) => ({ label: title, kind: "page", run: () => go(pathOf(path)) }));
  const first = [...actions, ...places].filter(isWanted);
  const sandboxes: Choice[] = [];
  for (const name of names.value) {
    if (first.length + sandboxes.length >= most) break;
    if (isWanted({ label: name })) {
      sandboxes.push({ label: name, kind: "sandbox", run: () => go(pathOf("sandboxes", name)) });
    }
  }
  // A name that somebody types is more often a sandbox than a page.
  return (wanted === "" ? [...first, ...sandboxes] : [...sandboxes, ...first]).slice(0, most);
}

/** the sandbox of this page */
function hereOf(): string | undefined {
  const [page, name] = parts.value;
  return page === "sandboxes" && name !== undefined && known(name) ? name : undefined;
}

function actionsOn(targets: readonly string[]): Choice[] {
  if (targets.length === 0 || whyReadOnly() !== undefined) return [];
  const [only] = targets;
  const what = targets.length === 1 ? (only ?? "") : `${targets.length} sandboxes`;
  const each = (work: (name: string) => unknown) => () => {
    for (const name of targets) void work(name);
  };
  const inSession = (work: (name: string, session: string) => unknown) =>
    each((name) => {
      const session = sandbox(name)?.session;
      if (session) work(name, session.id);
    });
  const has = (states: string[]) => targets.some((name) => states.includes(sandbox(name)?.state ?? ""));
  const actions: [string, boolean, () => unknown][] = [
    ["Stop", has(["running"]), each(stop)],
    ["Snapshot", has(["running"]), inSession(snapshot)],
    ["Extend by 15 minutes", has(["running"]), inSession((name, session) => extend(name, session, quarterHour))],
    ["Resume", has(["stopped", "paused", "failed", "aborted"]), each(resume)],
    ["Fork", true, each((name) => fork(name, { stays: targets.length > 1 }))],
  ];
  return actions.flatMap(([verb, isPossible, run]) =>
    isPossible ? [{ label: `${verb}: ${what}`, kind: "do", run }] : [],
  );
}

function runIn(name: string, text: string): Choice {
  const run = async () => {
    if (text === "") return;
    const body = { command: "sh", args: ["-c", text] };
    const started = await act("Cannot run it", () => client.call("startCommand", { params: { sandbox: name }, body }));
    if (started) setParameters({ tab: "commands", command: started.id });
  };
  return { label: text === "" ? `Type a command for ${name}` : `Run in ${name}: ${text}`, kind: "run", run };
}
