/**
 * The end of serving: requests that are under way are finished, within a time, and no new ones begin. Waited for are those
 * whose caller could not simply ask again: what changes something and has not been answered yet. Whoever only reads, or
 * follows something that is answered already, is told to ask again and cut off.
 */

import type { IncomingMessage, ServerResponse } from "node:http";

/** how often one looks, in ms, and how often an answer must be seen begun and not ended to count as a stream */
const checkInterval = 20;
const streamsAfter = 20;

export class Drain {
  readonly #working = new Set<ServerResponse>();
  readonly #streams = new AbortController();
  #isClosing = false;
  #emptied: () => void = () => undefined;

  /** aborted when streams have to end */
  get ending(): AbortSignal {
    return this.#streams.signal;
  }

  /** false when the request was refused, because the end has begun */
  admit(request: IncomingMessage, response: ServerResponse): boolean {
    if (this.#isClosing) {
      refuse(response);
      return false;
    }
    if (request.method === "GET" || request.method === "HEAD" || request.method === "OPTIONS") return true;
    this.#working.add(response);
    response.once("close", () => {
      this.#working.delete(response);
      if (this.#working.size === 0) this.#emptied();
    });
    return true;
  }

  /** resolves when what was under way is answered, when `longest` ms are over, or when it is to hurry */
  async settled(longest: number, forced?: AbortSignal): Promise<void> {
    this.#isClosing = true;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#emptied = resolve;
    const timer = setTimeout(resolve, longest).unref();
    // One that is answered and goes on for longer streams what its caller can read again.
    let answeredFor = 0;
    const looking = setInterval(() => {
      answeredFor = [...this.#working].every(({ headersSent }) => headersSent) ? answeredFor + 1 : 0;
      if (answeredFor === streamsAfter) resolve();
    }, checkInterval).unref();
    forced?.addEventListener("abort", () => resolve());
    if (this.#working.size === 0 || forced?.aborted) resolve();
    await promise;
    clearTimeout(timer);
    clearInterval(looking);
    this.#streams.abort();
  }
}

function refuse(response: ServerResponse): void {
  const message = "The daemon is closing.";
  response.writeHead(503, {
    "content-type": "application/json; charset=utf-8",
    "retry-after": "1",
    connection: "close",
  });
  response.end(JSON.stringify({ error: { code: "service_unavailable", message } }));
}
