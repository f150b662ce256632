/** The output of a command, as it comes: errors are tinted, and people can search it, wrap it, and follow its end. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { Output } from "../../client/types.ts";
import { html } from "../html.ts";
import { act } from "../parts/acts.ts";
import { client, sentence } from "../session.ts";
import { line } from "../text.ts";
import { plainText } from "./output.ts";

export type Command = Output<"getCommand">;

/** most characters that the page keeps of an output; older ones give way */
const mostShown = 1_000_000;

interface Piece {
  stream: string;
  text: string;
}

interface OutputProps {
  value: Command;
  /** runs the same command again; undefined while the sandbox does not run */
  again: (() => void) | undefined;
}

export function CommandOutput({ value, again }: OutputProps) {
  const [pieces, setPieces] = useState<readonly Piece[]>([]);
  const [problem, setProblem] = useState("");
  const [wraps, setWraps] = useState(true);
  const [follows, setFollows] = useState(value.endedAt === null);
  const [wanted, setWanted] = useState("");
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
    if (element && follows) element.scrollTop = element.scrollHeight;
  }, [pieces, follows]);
  const params = { session: value.sessionId, command: value.id };
  const interrupt = () =>
    void act("Cannot interrupt it", () => client.call("signalCommand", { params, body: { signal: "SIGINT" } }));
  const shown = wanted === "" ? pieces : matching(pieces, wanted);
  return html`<div class="ph"><b class="mono cut">${line(value.command, value.args)}</b>
      ${value.endCause !== null && html`<span class="problem">${value.endCause}</span>`}
      <span class="gap"></span>
      ${value.endedAt === null && html`<button type="button" class="small" onClick=${interrupt}>Interrupt</button>`}
      ${again && html`<button type="button" class="small" onClick=${again}>Run again</button>`}
    </div>
    <div class="ph tools">
      <label class="unseen" for="search-output">Show only lines with</label>
      <input id="search-output" type="search" placeholder="only lines with" value=${wanted}
        onInput=${(event: InputEvent) => setWanted((event.target as HTMLInputElement).value)} />
      <${Switch} words="wrap" isOn=${wraps} set=${setWraps} />
      <${Switch} words="follow" isOn=${follows} set=${setFollows} />
    </div>
    <pre class=${wraps ? "output" : "output long"} ref=${place} tabindex="0" aria-label="Output">${shown.map(
      ({ stream, text }) => html`<span class=${stream}>${text}</span>`,
    )}</pre>
    ${problem !== "" && html`<p class="problem" role="alert">${problem}</p>`}`;
}

function Switch({ words, isOn, set }: { words: string; isOn: boolean; set: (isOn: boolean) => void }) {
  return html`<label class="check"><input type="checkbox" checked=${isOn}
    onChange=${(event: Event) => set((event.target as HTMLInputElement).checked)} /> ${words}</label>`;
}

function matching(pieces: readonly Piece[], wanted: string): Piece[] {
  const text = wanted.toLowerCase();
  return pieces.flatMap((piece) => {
    const lines = piece.text.split("\n").filter((each) => each.toLowerCase().includes(text));
    return lines.length === 0 ? [] : [{ ...piece, text: `${lines.join("\n")}\n` }];
  });
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
