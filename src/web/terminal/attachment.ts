/**
 * A terminal of a command over a WebSocket. It counts the bytes that it got, so that after a lost connection it continues
 * where it was; the daemon has the rest in the command's journal.
 */

import { binding } from "../session.ts";

export interface TerminalEvents {
  output(bytes: Uint8Array): void;
  dropped(bytes: number): void;
  /** undefined while the connection is lost and is tried again */
  state(text: "connected" | "lost" | "ended", exitCode?: number | null): void;
}

const pauses = [200, 1000, 3000];

export class Attachment {
  readonly #path: string;
  readonly #events: TerminalEvents;
  #socket: WebSocket | undefined;
  #got = 0;
  #failures = 0;
  #isOver = false;

  constructor(session: string, command: string, events: TerminalEvents) {
    this.#path = `/sandkeep/v1/sessions/${encodeURIComponent(session)}/commands/${encodeURIComponent(command)}/terminal`;
    this.#events = events;
    this.#connect();
  }

  send(text: string): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(new TextEncoder().encode(text));
  }

  resize(rows: number, columns: number): void {
    if (this.#socket?.readyState === WebSocket.OPEN) {
      this.#socket.send(JSON.stringify({ type: "resize", rows, columns }));
    }
  }

  close(): void {
    this.#isOver = true;
    this.#socket?.close();
  }

  #connect(): void {
    const address = new URL(`${this.#path}?from=${this.#got}`, location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(address, ["sandkeep", `sandkeep.session.${binding()}`]);
    socket.binaryType = "arraybuffer";
    socket.addEventListener("message", ({ data }) => this.#take(data));
    socket.addEventListener("open", () => {
      this.#failures = 0;
      this.#events.state("connected");
    });
    socket.addEventListener("close", () => this.#again());
    this.#socket = socket;
  }

  #take(data: ArrayBuffer | string): void {
    if (typeof data !== "string") {
      this.#got += data.byteLength;
      this.#events.output(new Uint8Array(data));
      return;
    }
    // The messages of src/api/sandkeep/terminals.ts.
    const message = JSON.parse(data) as { type: string; bytes?: number; exitCode?: number | null };
    if (message.type === "dropped") {
      this.#got += message.bytes ?? 0;
      this.#events.dropped(message.bytes ?? 0);
    }
    if (message.type === "exit") {
      this.#isOver = true;
      this.#events.state("ended", message.exitCode ?? null);
    }
  }

  #again(): void {
    if (this.#isOver) return;
    this.#events.state("lost");
    const pause = pauses[Math.min(this.#failures++, pauses.length - 1)];
    setTimeout(() => !this.#isOver && this.#connect(), pause);
  }
}
