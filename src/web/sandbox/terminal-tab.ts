/** A shell in the sandbox. It goes on when the page is left or loaded again, and other clients can share it. */

import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "../html.ts";
import { act, copy } from "../parts/acts.ts";
import { Question } from "../parts/dialog.ts";
import { parameter, setParameters } from "../router.ts";
import { client } from "../session.ts";
import { Attachment } from "../terminal/attachment.ts";
import { isCopying, withControl } from "../terminal/keys.ts";
import { isReport } from "../terminal/report.ts";
import { defineStyleElement } from "../terminal/style-element.ts";
import { visible } from "../text.ts";
import { isShell } from "./of-commands.ts";
import type { TabProps } from "./sandbox-view.ts";

const softKeys: [string, string][] = [
  ["esc", "\u001b"],
  ["tab", "\t"],
  ["↑", "\u001b[A"],
  ["↓", "\u001b[B"],
  ["|", "|"],
];

export function TerminalTab({ value: { state, session }, history }: TabProps) {
  const element = useRef<HTMLDivElement>(null);
  const attachment = useRef<Attachment | undefined>(undefined);
  /** whether the next key that somebody types on a phone is with Ctrl */
  const control = useRef(false);
  const [isControl, setControl] = useState(false);
  const hold = (isHeld: boolean) => {
    control.current = isHeld;
    setControl(isHeld);
  };
  const [words, setWords] = useState("");
  const [pasted, setPasted] = useState<{ text: string; accept: () => void } | undefined>(undefined);
  const command = parameter("shell");
  const cwd = parameter("cwd");
  const isRunning = state === "running";
  const start = async () => {
    const params = { session: session.id };
    const body = {
      command: "bash",
      args: ["-i"],
      terminal: { rows: 24, columns: 80 },
      env: { TERM: "xterm-256color" },
      ...(cwd !== "" && { cwd }),
    };
    const started = await act("Cannot start a shell", () => client.call("startCommand", { params, body }));
    if (!started) return;
    sessionStorage.setItem(place(session.id), started.id);
    setParameters({ shell: started.id, cwd: "" });
  };
  const isKnown = history.value !== undefined;
  const shells = (history.value?.commands ?? [])
    .filter((each) => each.sessionId === session.id && each.endedAt === null && isShell(each))
    .toReversed();
  useEffect(() => {
    if (command !== "" || !isRunning || !isKnown) return;
    // The shell of this tab, or one that somebody left, goes on.
    const own = sessionStorage.getItem(place(session.id));
    const earlier = (shells.find(({ id }) => id === own) ?? shells.at(-1))?.id;
    if (earlier === undefined || cwd !== "") void start();
    else setParameters({ shell: earlier });
  }, [isRunning, isKnown]);
  useEffect(() => {
    if (!element.current || command === "") return;
    return attached(element.current, {
      session: session.id,
      command,
      hold: attachment,
      control: { isHeld: () => control.current, release: () => hold(false) },
      say: setWords,
      ask: (text, accept) => setPasted({ text, accept }),
    });
  }, [command]);
  if (!isRunning && command === "")
    return html`<p class="empty">The sandbox does not run, so it has no terminal. Resume it first.</p>`;
  return html`<div class="ph"><${Shells} ids=${shells.map(({ id }) => id)} open=${command} /><span role="status">${words}</span>
      <button type="button" class="small" onClick=${() => void start()}>New shell</button>
      <span class="r">Ctrl Shift C copies, Ctrl Shift \\ leaves the terminal</span></div>
    <div class="shell" ref=${element}></div>
    <div class="softkeys" onPointerDown=${keepFocus}>
      <button type="button" aria-pressed=${isControl ? "true" : "false"} onClick=${() => hold(!isControl)}>ctrl</button>
      ${softKeys.map(
        ([label, text]) =>
          html`<button type="button" onClick=${() => attachment.current?.send(text)}>${label}</button>`,
      )}</div>
    ${
      pasted &&
      html`<${Question} title="Paste several lines" verb="Paste" close=${() => setPasted(undefined)} act=${pasted.accept}
        text=${`The shell may run each line at once: ${visible(pasted.text.slice(0, 300))}${pasted.text.length > 300 ? "…" : ""}`} />`
    }`;
}

/** a soft key leaves the focus, and so the keyboard of a phone, where it is */
function keepFocus(event: Event): void {
  event.preventDefault();
}

/** the shells of the session, to change between them; one alone needs no choice */
function Shells({ ids, open }: { ids: readonly string[]; open: string }) {
  if (ids.length < 2) return html`<b>bash</b>`;
  return ids.map(
    (id, at) => html`<button type="button" class="small" aria-pressed=${id === open ? "true" : "false"}
      onClick=${() => setParameters({ shell: id })}>${at + 1} bash</button>`,
  );
}

/** where this tab of the browser keeps the shell that it opened last in a session */
function place(session: string): string {
  return `sandkeep.shell.${session}`;
}

interface Shown {
  session: string;
  command: string;
  hold: { current: Attachment | undefined };
  /** the soft key "ctrl" */
  control: { isHeld: () => boolean; release: () => void };
  say: (words: string) => void;
  /** asks before text of several lines is pasted */
  ask: (text: string, accept: () => void) => void;
}

function attached(place: HTMLElement, { session, command, hold, control, say, ask }: Shown): () => void {
  defineStyleElement();
  loadStyles();
  const style = getComputedStyle(place);
  const colour = (name: string) => resolved(place, name);
  const terminal = new Terminal({
    fontFamily: style.fontFamily,
    fontSize: 12.5,
    minimumContrastRatio: 4.5,
    scrollback: 10_000,
    theme: {
      background: colour("--sunken"),
      foreground: colour("--ink"),
      cursor: colour("--accent"),
      selectionBackground: colour("--chosen"),
      red: colour("--fail"),
      green: colour("--run"),
      yellow: colour("--pause"),
      blue: colour("--busy"),
      magenta: colour("--snap"),
    },
    screenReaderMode: true,
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  terminal.open(place);
  // A program must not reach the clipboard or the title of this page.
  for (const code of [0, 1, 2, 8, 52]) terminal.parser.registerOscHandler(code, () => true);
  let shownAgain = 0;
  const connection = new Attachment(session, command, {
    output(bytes, isPast) {
      if (isPast) shownAgain++;
      terminal.write(bytes, () => {
        if (isPast) shownAgain--;
      });
    },
    dropped: (bytes) => say(`${bytes} bytes are no longer kept`),
    state(text, exitCode) {
      say(text === "ended" ? `ended${exitCode === null ? "" : ` with ${exitCode}`}` : text);
      if (text === "connected") connection.resize(terminal.rows, terminal.cols);
    },
  });
  hold.current = connection;
  terminal.onData((data) => {
    if (shownAgain > 0 && isReport(data)) return;
    connection.send(control.isHeld() ? withControl(data) : data);
    if (control.isHeld()) control.release();
  });
  terminal.onResize(({ rows, cols }) => connection.resize(rows, cols));
  terminal.attachCustomKeyEventHandler((event) => {
    if (event.type === "keydown" && isCopying(event) && terminal.hasSelection()) {
      event.preventDefault();
      void copy(terminal.getSelection()).then(() => terminal.focus());
      return false;
    }
    const isLeaving = event.ctrlKey && event.shiftKey && event.code === "Backslash";
    if (isLeaving) document.querySelector<HTMLElement>('[role="tab"][aria-selected="true"]')?.focus();
    return !isLeaving;
  });
  const paste = (event: ClipboardEvent) => {
    const text = event.clipboardData?.getData("text/plain") ?? "";
    if (!/[\r\n]./.test(text)) return;
    event.preventDefault();
    event.stopPropagation();
    ask(text, () => {
      terminal.paste(text);
      terminal.focus();
    });
  };
  place.addEventListener("paste", paste, true);
  const watch = new ResizeObserver(() => fit.fit());
  watch.observe(place);
  fit.fit();
  terminal.focus();
  return () => {
    watch.disconnect();
    place.removeEventListener("paste", paste, true);
    connection.close();
    terminal.dispose();
  };
}

/** xterm's own styles, which only this tab needs */
function loadStyles(): void {
  const href = new URL("../../npm/xterm.css", import.meta.url).href;
  if (document.querySelector(`link[href="${CSS.escape(href)}"]`)) return;
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = href;
  document.head.append(link);
}

/** the colour of a token in the present theme */
function resolved(place: HTMLElement, token: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${token})`;
  place.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
