/** The output of a command, as it comes: errors are tinted, and people can search it, wrap it, and follow its end. */

import { Component } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Output } from "../../client/types.ts";
import { html } from "../html.ts";
import { act } from "../parts/acts.ts";
import { client, sentence } from "../session.ts";
import { counted, line, size } from "../text.ts";
import { type Block, KeptOutput, plainText, rawText } from "./output.ts";

export type Command = Output<"getCommand">;

/** most characters that the page keeps of an output; older ones give way */
const mostShown = 1_000_000;
/** ms between two reads while a command runs; they grow while it says nothing */
const shortestPause = 200;
const longestPause = 1000;

interface OutputProps {
  value: Command;
  /** runs the same command again; undefined while the sandbox does not run */
  again: (() => void) | undefined;
}

export function CommandOutput({ value, again }: OutputProps) {
  const [blocks, setBlocks] = useState<readonly Block[]>([]);
  const [problem, setProblem] = useState("");
  const [amount, setAmount] = useState<Amount>({ bytes: 0, errors: 0 });
  const [isRaw, setRaw] = useState(false);
  const [wraps, setWraps] = useState(true);
  const [follows, setFollows] = useState(value.endedAt === null);
  const [wanted, setWanted] = useState("");
  const place = useRef<HTMLPreElement>(null);
  const ended = useRef(false);
  ended.current = value.endedAt !== null;
  useEffect(() => {
    const left = new AbortController();
    const isOver = () => ended.current;
    const show = (all: readonly Block[], read: Amount) => {
      setBlocks(all);
      setAmount(read);
    };
    const text = isRaw ? rawText : plainText;
    const params = { session: value.sessionId, command: value.id };
    void followed({ params, isOver, signal: left.signal, text, show }).catch((error) => {
      if (!left.signal.aborted) setProblem(sentence(error));
    });
    return () => left.abort();
  }, [value.id, isRaw]);
  useEffect(() => {
    const element = place.current;
    if (element && follows) element.scrollTop = element.scrollHeight;
  }, [blocks, follows]);
  const params = { session: value.sessionId, command: value.id };
  const interrupt = () =>
    void act("Cannot interrupt it", () => client.call("signalCommand", { params, body: { signal: "SIGINT" } }));
  const shown = wanted === "" ? blocks : matching(blocks, wanted);
  return html`<div class="ph"><b class="mono cut">${line(value.command, value.args)}</b>
      ${value.endCause !== null && html`<span class="problem">${value.endCause}</span>`}
      <span class="num quiet">${size(amount.bytes)}</span>
      ${amount.errors > 0 && html`<span class="problem num">${counted(amount.errors, "line")} on stderr</span>`}
      <span class="gap"></span>
      ${value.endedAt === null && html`<button type="button" class="small" onClick=${interrupt}>Interrupt</button>`}
      ${again && html`<button type="button" class="small" title="The same program in the same folder, as the sandbox's user and with its variables. Those of this run are not kept" onClick=${again}>Run again</button>`}
    </div>
    <div class="ph tools">
      <label class="unseen" for="search-output">Show only lines with</label>
      <input id="search-output" type="search" placeholder="only lines with" value=${wanted}
        onInput=${(event: InputEvent) => setWanted((event.target as HTMLInputElement).value)} />
      <${Switch} words="raw" isOn=${isRaw} set=${setRaw} />
      <${Switch} words="wrap" isOn=${wraps} set=${setWraps} />
      <${Switch} words="follow" isOn=${follows} set=${setFollows} />
    </div>
    <pre class=${wraps ? "output" : "output long"} ref=${place} role="group" tabindex="0" aria-label="Output">${shown.map((block) => html`<${Lines} key=${block.id} block=${block} />`)}</pre>
    ${problem !== "" && html`<p class="problem" role="alert">${problem}</p>`}`;
}

function Switch({ words, isOn, set }: { words: string; isOn: boolean; set: (isOn: boolean) => void }) {
  return html`<label class="check"><input type="checkbox" checked=${isOn}
    onChange=${(event: Event) => set((event.target as HTMLInputElement).checked)} /> ${words}</label>`;
}

function matching(blocks: readonly Block[], wanted: string): Block[] {
  const text = wanted.toLowerCase();
  return blocks.flatMap(({ id, pieces }) => {
    const found = pieces.flatMap(({ stream, text: all }) => {
      const lines = all.split("\n").filter((each) => each.toLowerCase().includes(text));
      return lines.length === 0 ? [] : [{ stream, text: `${lines.join("\n")}\n`, count: lines.length }];
    });
    return found.length === 0 ? [] : [{ id, pieces: found, lines: found.reduce((sum, { count }) => sum + count, 0) }];
  });
}

const lineHeight = 18;

/** A block is the same object until text is added to it, so that only changed ones are drawn again. */
class Lines extends Component<{ block: Block }> {
  override shouldComponentUpdate({ block }: { block: Block }): boolean {
    return block !== this.props.block;
  }

  override render({ block: { pieces, lines } }: { block: Block }) {
    const style = { containIntrinsicSize: `auto ${Math.max(1, lines) * lineHeight}px` };
    return html`<div class="lines" style=${style}>${pieces.map(({ stream, text }) => html`<span class=${stream}>${text}</span>`)}</div>`;
  }
}

/** How much of an output was read. */
interface Amount {
  /** of all of it, also of what is no longer kept */
  bytes: number;
  /** lines on the stream for errors */
  errors: number;
}

interface Followed {
  params: { session: string; command: string };
  isOver: () => boolean;
  signal: AbortSignal;
  /** how text is shown */
  text: (text: string) => string;
  show: (blocks: readonly Block[], read: Amount) => void;
}

/**
 * Reads the output to the end of the command. Each request ends with what is there: a stream would hold one of the few
 * connections that a browser has for all its tabs.
 */
async function followed({ params, isOver, signal, text: shown, show }: Followed) {
  const decoders: Record<string, TextDecoder> = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  const kept = new KeptOutput(mostShown);
  let from = 0;
  let errors = 0;
  let isMidLine = false;
  let pause = shortestPause;
  for (;;) {
    const isLast = isOver();
    const begin = from;
    const query = { from, encoding: "base64" as const };
    for await (const { stream, data, next, dropped } of client.lines("readOutput", { params, query, signal })) {
      from = next;
      if (dropped > 0) kept.add("note", `… ${dropped} bytes are no longer kept …\n`);
      const text = decoders[stream]?.decode(bytesOf(data), { stream: true }) ?? "";
      kept.add(stream, shown(text));
      if (stream !== "stderr" || text === "") continue;
      // A line that an earlier piece began is counted already.
      errors += text.split("\n").length - (text.endsWith("\n") ? 1 : 0) - (isMidLine ? 1 : 0);
      isMidLine = !text.endsWith("\n");
    }
    if (from > begin || isLast) show(kept.blocks(), { bytes: from, errors });
    if (isLast || signal.aborted) return;
    pause = from > begin ? shortestPause : Math.min(longestPause, pause * 1.5);
    await waited(pause, signal);
    while (document.hidden && !signal.aborted) await waited(longestPause, signal);
  }
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
}

async function waited(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
