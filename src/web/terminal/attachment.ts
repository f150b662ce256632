/**
 * A terminal of a command over a WebSocket. It counts the bytes that it got, so that after a lost connection it continues
 * where it was; the daemon has the rest in the command's journal. What is typed meanwhile is sent once it is connected.
 */

import { place } from "../place.ts";
import { binding } from "../session.ts";

export interface TerminalEvents {
  /** `isPast`: it was printed before the connection was made */
  output(bytes: Uint8Array, isPast: boolean): void;
  dropped(bytes: number): void;
  /** undefined while the connection is lost and is tried again */
  state(text: "connected" | "lost" | "ended", exitCode?: number | null): void;
}

const pauses = [200, 1000, 3000];
/** most bytes of input that wait for a connection */
const mostPending = 64 << 10;

export class Attachment {
  readonly #path: string;
  readonly #events: TerminalEvents;
  #socket: WebSocket | undefined;
  #got = 0;
  /** end of the output when the connection was made */
  #end = 0;
  #pending: Uint8Array<ArrayBuffer>[] = [];
  #failures = 0;
  #isOver = false;

  constructor(session: string, command: string, events: TerminalEvents) {
    this.#path = `/sandkeep/v1/sessions/${encodeURIComponent(session)}/commands/${encodeURIComponent(command)}/terminal`;
    this.#events = events;
    this.#connect();
  }

  send(text: string): void {
    const bytes = new TextEncoder().encode(text);
    if (this.#socket?.readyState === WebSocket.OPEN) {
      this.#socket.send(bytes);
      return;
    }
    const waiting = this.#pending.reduce((sum, { length }) => sum + length, 0);
    if (!this.#isOver && waiting + bytes.length <= mostPending) this.#pending.push(bytes);
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
    if (place) address.searchParams.set("team", place.team);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(address, ["sandkeep", `sandkeep.session.${binding()}`]);
    socket.binaryType = "arraybuffer";
    socket.addEventListener("message", ({ data }) => this.#take(data));
    socket.addEventListener("open", () => {
      this.#failures = 0;
      for (const bytes of this.#pending.splice(0)) socket.send(bytes);
      this.#events.state("connected");
    });
    socket.addEventListener("close", () => this.#again());
    this.#socket = socket;
  }

  #take(data: ArrayBuffer | string): void {
    if (typeof data !== "string") {
      const isPast = this.#got < this.#end;
      this.#got += data.byteLength;
      this.#events.output(new Uint8Array(data), isPast);
      return;
    }
    // The messages of src/api/sandkeep/terminals.ts.
    const message = JSON.parse(data) as { type: string; end?: number; bytes?: number; exitCode?: number | null };
    if (message.type === "attached") this.#end = message.end ?? 0;
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
