/** A small HTTP client on one connection that stays open: it takes little of the time that it measures. */

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import type { TestDaemon } from "../test/harness/daemon.ts";

type Server = Pick<TestDaemon, "url" | "key">;

export class RawClient {
  readonly #socket: Socket;
  readonly #head: string;
  #received = "";
  #wake: () => void = () => undefined;

  private constructor(socket: Socket, { url, key }: Server) {
    this.#socket = socket;
    this.#head = `host: ${new URL(url).host}\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\n`;
    socket.setEncoding("latin1");
    socket.setNoDelay(true);
    socket.on("data", (text: string) => {
      this.#received += text;
      this.#wake();
    });
    socket.on("close", () => this.#wake());
  }

  static async open(server: Server): Promise<RawClient> {
    const { hostname, port } = new URL(server.url);
    const socket = connect(Number(port), hostname);
    await once(socket, "connect");
    return new RawClient(socket, server);
  }

  /** the body of an answer; throws unless its status is 200 */
  async request(method: string, path: string, body?: object): Promise<string> {
    const text = body === undefined ? "" : JSON.stringify(body);
    this.#received = "";
    this.#socket.write(
      `${method} ${path} HTTP/1.1\r\n${this.#head}content-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
    );
    for (;;) {
      const answer = answerIn(this.#received);
      if (answer !== undefined) return answer;
      if (this.#socket.closed) throw new Error(`The server closed the connection during ${method} ${path}`);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  close(): void {
    this.#socket.destroy();
  }
}

/** the body, as soon as all of it is there; chunks are left as they are */
function answerIn(received: string): string | undefined {
  const end = received.indexOf("\r\n\r\n");
  if (end < 0) return undefined;
  const head = received.slice(0, end).toLowerCase();
  const body = received.slice(end + 4);
  const length = /\r\ncontent-length: (\d+)/.exec(head)?.[1];
  const isWhole = length === undefined ? body.endsWith("0\r\n\r\n") : body.length >= Number(length);
  if (!isWhole) return undefined;
  if (!head.startsWith("http/1.1 200 ")) throw new Error(received);
  return body;
}
