/** The command line's way to the daemon: its HTTP API, with a key. */

import { CliError } from "./errors.ts";

export interface ClientOptions {
  /** where the daemon is: scheme, host and port */
  url: string;
  key?: string;
}

export class Client {
  readonly #options: ClientOptions;

  constructor(options: ClientOptions) {
    this.#options = options;
  }

  /** The JSON of an answer that is good; otherwise an error with what the daemon said. */
  async call(method: string, path: string, body?: unknown): Promise<unknown> {
    const text = await (await this.#ask(method, path, body)).text();
    return text === "" ? undefined : JSON.parse(text);
  }

  /** The lines of an answer of JSON lines, as they come; ends with an error when that is the last line. */
  async *lines(path: string): AsyncGenerator<unknown> {
    const response = await this.#ask("GET", path);
    let rest = "";
    const decoder = new TextDecoder();
    for await (const chunk of response.body ?? []) {
      const whole = (rest + decoder.decode(chunk, { stream: true })).split("\n");
      rest = whole.pop() ?? "";
      for (const line of whole.filter((each) => each !== "")) {
        if (line.startsWith('{"error":')) throw new CliError(`Cannot go on with ${path}: ${wordsOf(line)}`);
        yield JSON.parse(line);
      }
    }
  }

  async #ask(method: string, path: string, body?: unknown): Promise<Response> {
    const { url, key } = this.#options;
    const response = await fetch(new URL(path, url), {
      method,
      headers: {
        ...(key !== undefined && { authorization: `Bearer ${key}` }),
        ...(body !== undefined && { "content-type": "application/json" }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    }).catch(() => {
      throw new CliError(`Cannot reach the daemon at "${url}"`, "start it with: sandkeep serve");
    });
    if (response.ok) return response;
    const text = await response.text();
    throw new CliError(`Cannot ${method} ${path}: ${wordsOf(text) ?? `the daemon says ${response.status}`}`);
  }

  /** whether a daemon answers there */
  async isUp(patience = 1000): Promise<boolean> {
    const signal = AbortSignal.timeout(patience);
    const answer = await fetch(new URL("/health", this.#options.url), { signal }).catch(() => undefined);
    await answer?.body?.cancel();
    return answer?.ok === true;
  }
}

/** every wire puts its sentence in one of two places */
function wordsOf(text: string): string | undefined {
  try {
    const { error, message = error?.message } = JSON.parse(text);
    return typeof message === "string" ? message : undefined;
  } catch {
    return undefined;
  }
}
