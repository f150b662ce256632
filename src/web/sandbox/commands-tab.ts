/** The commands of a sandbox, the output of one of them, and a line to run another. */

import { useRef } from "preact/hooks";
import { useAnswer } from "../data/answer.ts";
import { type HistoryAnswer, mostCommands } from "../data/history.ts";
import { now } from "../data/live.ts";
import { html } from "../html.ts";
import { act } from "../parts/acts.ts";
import { Unanswered } from "../parts/answered.ts";
import { Exit } from "../parts/exit.ts";
import { parameter, setParameters } from "../router.ts";
import { client } from "../session.ts";
import { chosenStretch } from "../tape/tape.ts";
import { type Stretch, touches } from "../tape/tape-scale.ts";
import { clock, commandLine, took } from "../text.ts";
import { type Command, CommandOutput } from "./command-output.ts";
import { isShell } from "./of-commands.ts";
import { OfSessions, whenWords } from "./of-sessions.ts";
import type { TabProps } from "./sandbox-view.ts";

export function CommandsTab({ value: { state, session }, history }: TabProps) {
  const params = { session: session.id };
  const open = parameter("command");
  const stretch = chosenStretch();
  const inTime = useCommandsIn(stretch, history);
  const listed = history.value?.commands ?? [];
  const shown =
    (stretch && inTime.value?.commands) || listed.filter((each) => touches(stretch, each.startedAt, endOf(each)));
  const first = useRef("");
  // The newest one when the tab was opened, so that its output is there at once and stays.
  if (first.current === "") first.current = (shown.find((each) => !isShell(each)) ?? shown[0])?.id ?? "";
  const wanted = open === "" ? first.current : open;
  const known = [...listed, ...shown].find(({ id }) => id === wanted);
  const chosen = useMissing(known === undefined ? open : "", history) ?? known;
  const isCut = stretch ? inTime.value?.isWhole === false : history.value?.hasMoreCommands;
  const start = async (command: string, args: string[], more: { cwd?: string } = {}) => {
    const body = { command, args, ...more };
    const started = await act("Cannot run it", () => client.call("startCommand", { params, body }));
    if (!started) return false;
    history.reread();
    setParameters({ command: started.id });
    return true;
  };
  const run = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.target;
    if (!(form instanceof HTMLFormElement)) return;
    const text = String(new FormData(form).get("line") ?? "").trim();
    if (text !== "" && (await start("sh", ["-c", text]))) form.reset();
  };
  const isRunning = state === "running";
  return html`<div class="split">
    <div class="pane">
      ${
        isRunning &&
        html`<form class="run" onSubmit=${run}>
          <label class="unseen" for="line">Command to run in a shell</label>
          <input id="line" name="line" class="mono" placeholder="command to run" autocomplete="off" spellcheck=${false} />
          <button type="submit">Run</button>
        </form>`
      }
      <${Unanswered} answer=${history} />
      ${isCut && html`<p class="note">Only the newest ${mostCommands} commands of each session are listed. ${stretch ? "Choose a shorter time on the tape" : "Drag over the tape"} to see others.</p>`}
      ${history.value && shown.length === 0 && html`<p class="empty">No command has run ${whenWords(stretch !== undefined, history.value)}.</p>`}
      <ul class="commands">
        <${OfSessions} items=${shown} current=${session.id} history=${history.value}
          row=${(each: Command) => html`<li key=${each.id}>
            <button
              type="button" aria-pressed=${each.id === chosen?.id ? "true" : "false"}
              onClick=${() => setParameters({ command: each.id })}
            >
              <${Exit} exitCode=${each.exitCode} /><span class="mono cut">${commandLine(each.command, each.args)}</span>
              <span class="num">${took((each.endedAt ?? now.value) - each.startedAt)}</span>
              <span class="num quiet">${clock(each.startedAt)}</span>
            </button>
          </li>`}
        />
      </ul>
    </div>
    <div class="pane">${
      chosen
        ? html`<${CommandOutput} value=${chosen} key=${chosen.id}
            again=${isRunning ? () => void start(chosen.command, chosen.args, { cwd: chosen.cwd }) : undefined} />`
        : html`<p class="empty">The output of a command is shown here.</p>`
    }</div>
  </div>`;
}

function endOf({ endedAt }: Command): number {
  return endedAt ?? now.value;
}

/** the commands that ran in the chosen time, also those that are too old for the list of their session */
function useCommandsIn(stretch: Stretch | undefined, history: HistoryAnswer) {
  const sessions = (history.value?.sessions ?? []).filter((each) =>
    touches(stretch, each.startedAt ?? each.createdAt, each.endedAt ?? Number.POSITIVE_INFINITY),
  );
  const about = stretch ? `${stretch.from} ${stretch.to} ${sessions.map(({ id }) => id).join(" ")}` : "";
  const read = async (signal: AbortSignal) => {
    // Without a stretch, the list of the history has them.
    if (!stretch || history.value?.hasMoreCommands === false) return undefined;
    const query = { ...stretch, limit: mostCommands };
    const pages = await Promise.all(
      sessions.map(({ id }) => client.call("listCommands", { params: { session: id }, query, signal })),
    );
    return { commands: pages.flatMap(({ commands }) => commands), isWhole: pages.every(({ next }) => next === null) };
  };
  return useAnswer(about, read);
}

/** a command that somebody opened by its id, which no list has */
function useMissing(id: string, history: HistoryAnswer): Command | undefined {
  const sessions = history.value?.sessions ?? [];
  const read = async (signal: AbortSignal) => {
    if (id === "") return undefined;
    const asked = sessions.map((each) =>
      client.call("getCommand", { params: { session: each.id, command: id }, signal }),
    );
    return Promise.any(asked).catch(() => undefined);
  };
  const { value } = useAnswer(`${id} ${sessions.length}`, read);
  return value?.id === id ? value : undefined;
}
