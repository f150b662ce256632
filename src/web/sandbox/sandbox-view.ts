/** The page of one sandbox: what it is, what can be done with it, and its tabs. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { progress, reread, type Sandbox, sandbox } from "../data/live.ts";
import { tagsOf } from "../data/query.ts";
import { html } from "../html.ts";
import { Ends } from "../pages/sandboxes.ts";
import { copy, extend, fork, remove, resume, snapshot, stop } from "../parts/acts.ts";
import { Question } from "../parts/dialog.ts";
import { Lazy } from "../parts/lazy.ts";
import { StateMark, StateWord } from "../parts/state.ts";
import { go, parameter, pathOf, setParameters } from "../router.ts";
import { memory, visible } from "../text.ts";
import { CommandsTab } from "./commands-tab.ts";
import { Tape } from "./tape.ts";

export interface TabProps {
  value: Sandbox;
}

const tabs: { id: string; title: string; view: ComponentType<TabProps> }[] = [
  { id: "terminal", title: "Terminal", view: Lazy(async () => (await import("./terminal-tab.ts")).TerminalTab) },
  { id: "commands", title: "Commands", view: CommandsTab },
  { id: "files", title: "Files", view: Lazy(async () => (await import("./files-tab.ts")).FilesTab) },
  { id: "ports", title: "Ports", view: Lazy(async () => (await import("./ports-tab.ts")).PortsTab) },
  { id: "snapshots", title: "Snapshots", view: Lazy(async () => (await import("./snapshots-tab.ts")).SnapshotsTab) },
  { id: "egress", title: "Egress", view: Lazy(async () => (await import("./egress-tab.ts")).EgressTab) },
  { id: "usage", title: "Usage", view: Lazy(async () => (await import("./usage-tab.ts")).UsageTab) },
];

const quarterHour = 15 * 60_000;

export function SandboxView({ name }: { name: string }) {
  const value = sandbox(name);
  const [isMissing, setMissing] = useState(false);
  useEffect(() => {
    void reread(name).then(() => setMissing(true));
  }, [name]);
  if (!value) {
    const isKnownMissing = isMissing && progress.value === "complete";
    return isKnownMissing
      ? html`<p class="empty">There is no sandbox “${visible(name)}” in this project. It may belong to another team.</p>`
      : html`<p class="waiting" role="status">Loading …</p>`;
  }
  const wanted = parameter("tab");
  const tab = tabs.find(({ id }) => id === wanted) ?? tabs[1];
  return html`<${Header} value=${value} />
    <${Tape} value=${value} />
    <div class="tabs" role="tablist" aria-label="About this sandbox">
      ${tabs.map(
        ({ id, title }, at) => html`<button
          type="button" role="tab" id=${`tab-${id}`} aria-controls="tab" data-key=${String(at + 1)}
          aria-selected=${id === tab?.id ? "true" : "false"} onClick=${() => setParameters({ tab: id })}
        >${title}</button>`,
      )}
    </div>
    <div class="tab" role="tabpanel" id="tab" aria-labelledby=${`tab-${tab?.id}`}>
      ${tab && html`<${tab.view} value=${value} key=${`${tab.id} ${value.session.id}`} />`}
    </div>`;
}

function Header({ value }: TabProps) {
  const { name, state, session, vcpus, image, runtime } = value;
  const [isAsking, setAsking] = useState(false);
  const isRunning = state === "running";
  const isOver = ["stopped", "failed", "aborted", "paused"].includes(state);
  return html`<header class="about">
    <div class="title">
      <h1><${StateMark} state=${state} /> ${visible(name)}</h1>
      <${StateWord} state=${state} />
      ${tagsOf(value.tags).map((tag) => html`<span class="tag">${visible(tag)}</span>`)}
      <div class="acts">
        ${
          isRunning &&
          html`<button type="button" class="opt" data-key="e" onClick=${() => void extend(name, session.id, quarterHour)}>
              Extend 15 min <kbd>e</kbd>
            </button>
            <button type="button" class="opt" data-key="p" onClick=${() => void snapshot(name, session.id)}>
              Snapshot <kbd>p</kbd>
            </button>
            <button type="button" data-key="s" onClick=${() => void stop(name)}>
              ${value.persistent ? "Stop, keep files" : "Stop, lose files"} <kbd>s</kbd>
            </button>`
        }
        ${isOver && html`<button type="button" onClick=${() => void resume(name)}>Resume</button>`}
        <button type="button" class="opt" data-key="f" onClick=${() => void fork(name)}>Fork <kbd>f</kbd></button>
        <button type="button" class="danger" onClick=${() => setAsking(true)}>Delete…</button>
      </div>
    </div>
    <dl class="facts">
      <div><dt>ends in</dt><dd><${Ends} value=${value} /></dd></div>
      <div><dt>session</dt><dd><button type="button" class="plain" onClick=${() => void copy(session.id)}>${session.id}</button></dd></div>
      <div><dt>image</dt><dd>${visible(image ?? runtime ?? "default")}</dd></div>
      <div><dt>size</dt><dd>${vcpus} vCPU · ${memory(value.memory)}</dd></div>
      <div><dt>network</dt><dd>${networkWords(session.networkPolicy)}</dd></div>
      <div><dt>user</dt><dd>${visible(session.user)}</dd></div>
    </dl>
    ${session.endReason !== null && html`<p class="why">${visible(session.endReason)}</p>`}
    ${
      isAsking &&
      html`<${Question}
        title=${`Delete ${visible(name)}`} verb="Delete" close=${() => setAsking(false)}
        text="Its files and its snapshots are lost."
        act=${async () => {
          if (await remove(name)) go(pathOf("sandboxes"));
        }}
      />`
    }
  </header>`;
}

function networkWords(policy: Sandbox["networkPolicy"]): string {
  if (policy.mode !== "custom") return policy.mode;
  return `custom · ${policy.domains.length} names`;
}
