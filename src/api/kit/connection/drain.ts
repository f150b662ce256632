/**
 * Shutdown of the server: refuses new requests and waits a limited time for running ones. It waits only for requests
 * that change something and have no answer yet, because their callers cannot simply repeat them. It cuts off requests
 * that only read, and streams whose answer has begun: their callers can ask again.
 */

import type { IncomingMessage, ServerResponse } from "node:http";
import { SandkeepError } from "../../../core/model/errors.ts";

/** interval between checks, in ms, and the number of checks after which an unfinished answer counts as a stream */
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

  /** false when the request was refused because the shutdown has begun */
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

  /** resolves when all running requests are answered, after `longest` ms, or when `forced` aborts */
  async settled(longest: number, forced?: AbortSignal): Promise<void> {
    this.#isClosing = true;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#emptied = resolve;
    const timer = setTimeout(resolve, longest).unref();
    // An answer that has begun and goes on for long is a stream, which its caller can read again.
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
    // It is the last line of each of them.
    this.#streams.abort(new SandkeepError("unavailable", "Cannot continue: the daemon is closing"));
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
