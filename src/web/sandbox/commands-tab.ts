/** The commands of a session, the output of one of them, and a line to run another. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { Output } from "../../client/types.ts";
import { now, onChange } from "../data/live.ts";
import { html } from "../html.ts";
import { act } from "../parts/acts.ts";
import { parameter, setParameters } from "../router.ts";
import { client, sentence } from "../session.ts";
import { clock, line, took } from "../text.ts";
import { plainText } from "./output.ts";
import type { TabProps } from "./sandbox-view.ts";
import { chosenStretch } from "./tape.ts";
import { touches } from "./tape-scale.ts";

type Command = Output<"getCommand">;

export function CommandsTab({ value: { state, session } }: TabProps) {
  const [commands, setCommands] = useState<readonly Command[]>([]);
  const [problem, setProblem] = useState("");
  const params = { session: session.id };
  const read = () =>
    client.call("listCommands", { params, query: { limit: 100 } }).then(
      (page) => setCommands(page.commands),
      (error) => setProblem(sentence(error)),
    );
  useEffect(() => {
    void read();
    return onChange((event) => {
      if (event.sessionId === session.id && event.type.startsWith("command.")) void read();
    });
  }, [session.id]);
  const open = parameter("command");
  const stretch = chosenStretch();
  const shown = commands.filter(({ startedAt, endedAt }) => touches(stretch, startedAt, endedAt ?? now.value));
  const chosen = commands.find(({ id }) => id === open);
  const run = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.target;
    if (!(form instanceof HTMLFormElement)) return;
    const text = String(new FormData(form).get("line") ?? "").trim();
    if (text === "") return;
    const body = { command: "sh", args: ["-c", text] };
    const started = await act("Cannot run it", () => client.call("startCommand", { params, body }));
    if (!started) return;
    form.reset();
    await read();
    setParameters({ command: started.id });
  };
  return html`<div class="split">
    <div class="pane">
      ${
        state === "running" &&
        html`<form class="run" onSubmit=${run}>
          <label class="unseen" for="line">Command to run in a shell</label>
          <input id="line" name="line" class="mono" placeholder="command to run" autocomplete="off" spellcheck=${false} />
          <button type="submit">Run</button>
        </form>`
      }
      ${problem !== "" && html`<p class="problem" role="alert">${problem}</p>`}
      ${shown.length === 0 && html`<p class="empty">No command has run ${stretch ? "in this time" : "in this session"}.</p>`}
      <ul class="commands">
        ${shown.map(
          (each) => html`<li>
            <button
              type="button" aria-pressed=${each.id === open ? "true" : "false"}
              onClick=${() => setParameters({ command: each.id })}
            >
              <${Exit} value=${each} /><span class="mono cut">${line(each.command, each.args)}</span>
              <span class="num">${took((each.endedAt ?? now.value) - each.startedAt)}</span>
              <span class="num">${clock(each.startedAt)}</span>
            </button>
          </li>`,
        )}
      </ul>
    </div>
    <div class="pane">${chosen ? html`<${OutputOf} value=${chosen} key=${chosen.id} />` : html`<p class="empty">Choose a command to see its output.</p>`}</div>
  </div>`;
}

function Exit({ value: { exitCode } }: { value: Command }) {
  if (exitCode === null) return html`<span class="exit run">▸<span class="unseen">running</span></span>`;
  return html`<span class=${exitCode === 0 ? "exit" : "exit fail"}>${exitCode}<span class="unseen"> exit code</span></span>`;
}

/** most characters that the page keeps of an output; older ones give way */
const mostShown = 1_000_000;

interface Piece {
  stream: string;
  text: string;
}

function OutputOf({ value }: { value: Command }) {
  const [pieces, setPieces] = useState<readonly Piece[]>([]);
  const [problem, setProblem] = useState("");
  const place = useRef<HTMLPreElement>(null);
  useEffect(() => {
    const left = new AbortController();
    void followed(value, left.signal, setPieces).catch((error) => {
      if (!left.signal.aborted) setProblem(sentence(error));
    });
    return () => left.abort();
  }, [value.id]);
  useEffect(() => {
    const element = place.current;
    if (element && value.endedAt === null) element.scrollTop = element.scrollHeight;
  }, [pieces]);
  return html`<div class="ph"><b class="mono cut">${line(value.command, value.args)}</b>
      ${value.endCause !== null && html`<span class="problem">${value.endCause}</span>`}
    </div>
    <pre class="output" ref=${place} tabindex="0" aria-label="Output">${pieces.map(
      ({ stream, text }) => html`<span class=${stream}>${text}</span>`,
    )}</pre>
    ${problem !== "" && html`<p class="problem" role="alert">${problem}</p>`}`;
}

async function followed(command: Command, signal: AbortSignal, show: (pieces: readonly Piece[]) => void) {
  let kept: Piece[] = [];
  let length = 0;
  let isWaiting = false;
  const params = { session: command.sessionId, command: command.id };
  for await (const { stream, data, dropped } of client.lines("readOutput", {
    params,
    query: { follow: true },
    signal,
  })) {
    if (dropped > 0) kept.push({ stream: "note", text: `… ${dropped} bytes are no longer kept …\n` });
    const text = plainText(data);
    kept.push({ stream, text });
    length += text.length;
    while (length > mostShown && kept.length > 1) length -= kept.shift()?.text.length ?? 0;
    if (isWaiting) continue;
    isWaiting = true;
    requestAnimationFrame(() => {
      isWaiting = false;
      kept = [...kept];
      show(kept);
    });
  }
}
