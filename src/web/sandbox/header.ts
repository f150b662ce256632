/** The head of a sandbox's page: its name and state, what people do with it, and its facts. */

import { useState } from "preact/hooks";
import type { Sandbox } from "../data/live.ts";
import { tagsOf } from "../data/query.ts";
import { html } from "../html.ts";
import { ActButton } from "../parts/act-button.ts";
import { copy, extend, fork, pause, remove, resume, snapshot, stop } from "../parts/acts.ts";
import { Dialog, Question } from "../parts/dialog.ts";
import { Icon, type IconName } from "../parts/icon.ts";
import { Ends } from "../parts/meters.ts";
import { StateMark, StateWord } from "../parts/state.ts";
import { go, pathOf } from "../router.ts";
import { memory, span, visible } from "../text.ts";

const quarterHour = 15 * 60_000;

interface Act {
  words: string;
  key?: string;
  icon?: IconName;
  run: () => unknown;
  /** whether a phone has it only in the menu */
  isOptional?: boolean;
  isDanger?: boolean;
  /** only in the menu */
  isRare?: boolean;
  /** the same on the command line */
  cli?: string;
}

function actsOf(value: Sandbox, ask: () => void): Act[] {
  const { name, state, session, persistent } = value;
  const isOver = ["stopped", "failed", "aborted", "paused"].includes(state);
  const whileRunning: Act[] = [
    {
      words: "Extend 15 min",
      key: "e",
      run: () => extend(name, session.id, quarterHour),
      isOptional: true,
      cli: `sandkeep extend ${name} 15m`,
    },
    {
      words: "Snapshot",
      key: "p",
      icon: "snapshot",
      run: () => snapshot(name, session.id),
      isOptional: true,
      cli: `sandkeep snapshot create ${name}`,
    },
  ];
  const stopIt: Act = {
    words: persistent ? "Stop, keep files" : "Stop, lose files",
    key: "s",
    icon: "stop",
    run: () => stop(name),
    cli: `sandkeep stop ${name}`,
  };
  return [
    ...(state === "running" ? whileRunning : []),
    { words: "Fork", key: "f", icon: "fork", run: () => fork(name), isOptional: true, cli: `sandkeep fork ${name}` },
    ...(state === "running" ? [stopIt, { words: "Pause, keep programs", run: () => pause(name), isRare: true }] : []),
    ...(isOver ? [{ words: "Resume", icon: "resume" as const, run: () => resume(name) }] : []),
    { words: "Delete…", run: ask, isDanger: true, isRare: true, cli: `sandkeep rm ${name}` },
  ];
}

export function Header({ value }: { value: Sandbox }) {
  const { name, state, session, vcpus, image, runtime, madeBy } = value;
  const [asking, setAsking] = useState<"delete" | "menu" | undefined>(undefined);
  const close = () => setAsking(undefined);
  const acts = actsOf(value, () => setAsking("delete"));
  const mounts = Object.entries(value.mounts);
  return html`<header class="about">
    <div class="title">
      <h1><${StateMark} state=${state} name=${name} /> ${visible(name)}</h1>
      <${StateWord} state=${state} name=${name} />
      ${tagsOf(value.tags).map((tag) => html`<span class="token">${visible(tag)}</span>`)}
      <div class="acts">
        ${acts
          .filter(({ isRare }) => !isRare)
          .map(
            ({
              words,
              key,
              icon,
              run,
              isOptional,
            }) => html`<${ActButton} kind=${isOptional ? "opt" : undefined} hotkey=${key} act=${run}
            >${icon && html`<${Icon} name=${icon} />`} ${words} ${key && html`<kbd>${key}</kbd>`}<//>`,
          )}
        <button type="button" aria-label="All actions" data-key="." onClick=${() => setAsking("menu")}><${Icon} name="more" /></button>
      </div>
    </div>
    <dl class="facts">
      <${End} value=${value} />
      <div><dt>session</dt><dd><button type="button" class="plain" title="Copy the id" onClick=${() => void copy(session.id)}>${session.id.slice(0, 14)}…</button></dd></div>
      <div><dt>image</dt><dd>${visible(image ?? runtime ?? "default")}</dd></div>
      <div><dt>size</dt><dd>${vcpus} vCPU · ${memory(value.memory)}</dd></div>
      <div><dt>network</dt><dd>${networkWords(session.networkPolicy)}</dd></div>
      <div><dt>user</dt><dd>${visible(session.user)}</dd></div>
      ${madeBy.wire !== null && html`<div><dt>made over</dt><dd>${visible(madeBy.wire)}</dd></div>`}
      ${mounts.map(([path, { drive }]) => html`<div><dt>drive</dt><dd class="mono">${visible(`${drive} → ${path}`)}</dd></div>`)}
    </dl>
    ${session.endReason !== null && html`<p class=${state === "stopped" ? "quiet" : "why"}>${endWords(session)}</p>`}
    ${asking === "menu" && html`<${Menu} acts=${acts} close=${close} />`}
    ${
      asking === "delete" &&
      html`<${Question}
        title=${`Delete ${visible(name)}`} verb="Delete" close=${close}
        text="Its files and its snapshots are lost."
        act=${async () => {
          if (await remove(name)) go(pathOf("sandboxes"));
        }}
      />`
    }
  </header>`;
}

/** when it ends, or whether its files are there when it has ended */
function End({ value }: { value: Sandbox }) {
  const { state, session, persistent } = value;
  if (state === "stopped") return html`<div><dt>files</dt><dd>${persistent ? "kept" : "lost"}</dd></div>`;
  if (state !== "running" || session.expiresAt === null) return null;
  return html`<div><dt>ends in</dt><dd><${Ends} value=${value} /></dd></div>`;
}

function endWords({ endCause, endReason, timeout }: Sandbox["session"]): string {
  return endCause === "timeout" ? `Its time of ${span(timeout)} was over` : visible(endReason ?? "");
}

function Menu({ acts, close }: { acts: Act[]; close: () => void }) {
  const choose = (run: () => unknown) => () => {
    close();
    run();
  };
  return html`<${Dialog} title="Actions" close=${close}>
    <div class="menu">${acts.map(
      (each) => html`<${ActButton} kind=${each.isDanger ? "danger" : undefined} act=${choose(each.run)}>
          ${each.words} ${each.key && html`<kbd>${each.key}</kbd>`}<//>
        <${Cli} line=${each.cli} />`,
    )}</div>
  <//>`;
}

/** the command line that does the same, ready to copy */
function Cli({ line }: { line: string | undefined }) {
  if (line === undefined) return html`<span></span>`;
  return html`<button type="button" class="plain" title="Copy" onClick=${() => void copy(line)}>${visible(line)}</button>`;
}

export function networkWords(policy: Sandbox["networkPolicy"]): string {
  if (policy.mode !== "custom") return policy.mode;
  const { length } = policy.domains;
  return `custom · ${length} ${length === 1 ? "name" : "names"}`;
}
