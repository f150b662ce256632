/** Accepts or refuses WebSockets on connections from Node's server, and closes those that no longer respond. */

import { type IncomingMessage, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";

const longestMessage = 1 << 20;
const pingEvery = 30_000;
/** most bytes of the reason in a closing frame; the protocol allows 123 */
const mostReason = 120;

export class WebSockets {
  readonly #server = new WebSocketServer({ noServer: true, maxPayload: longestMessage, clientTracking: false });

  accept(request: IncomingMessage, socket: Duplex, head: Buffer, use: (connection: WebSocket) => void): void {
    this.#server.handleUpgrade(request, socket, head, (connection) => {
      watchHeartbeat(connection);
      use(connection);
    });
  }

  refuse(socket: Duplex, status: number): void {
    socket.on("error", () => undefined);
    socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`);
  }
}

/** the sentence as far as a closing frame has room for it: a longer one, in bytes, is an exception */
export function closingReason(sentence: string): string {
  const cut = Buffer.from(sentence).subarray(0, mostReason);
  // What is left of a character at the end is shown as U+FFFD.
  return cut.toString().replace(/\uFFFD+$/u, "");
}

/** closes a connection that does not answer a ping */
function watchHeartbeat(connection: WebSocket): void {
  let alive = true;
  connection.on("pong", () => {
    alive = true;
  });
  const timer = setInterval(() => {
    if (!alive) connection.terminate();
    alive = false;
    connection.ping();
  }, pingEvery);
  timer.unref();
  connection.on("close", () => clearInterval(timer));
}
