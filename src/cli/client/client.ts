/** The command line's client of the daemon's HTTP API, with a key. */

import { CliError, NoAnswer, Refusal } from "../errors.ts";
import { unreachable } from "./reachability.ts";

export interface ClientOptions {
  /** where the daemon is: scheme, host and port */
  url: string;
  key?: string;
}

/** Whose sandboxes a command is for. */
export interface Scope {
  team?: string | undefined;
  project?: string | undefined;
}

export interface Health {
  status: string;
  /** the domain of the sandboxes' ports; older daemons omit it */
  domain?: string;
}

export class Client {
  readonly #options: ClientOptions;

  constructor(options: ClientOptions) {
    this.#options = options;
  }

  /** The JSON of a successful answer; otherwise throws "Cannot", `what`, and the daemon's message. */
  async call(what: string, method: string, path: string, body?: unknown): Promise<unknown> {
    const json = body === undefined ? undefined : { json: body };
    const text = await (await this.#ask(what, method, path, json)).text();
    return text === "" ? undefined : JSON.parse(text);
  }

  /** The lines of a JSON lines answer, as they come; throws if a line is an error. */
  async *lines(what: string, path: string, sent?: AsyncIterable<Uint8Array>): AsyncGenerator<unknown> {
    const response = await this.#ask(what, sent ? "POST" : "GET", path, sent && { bytes: sent });
    let rest = "";
    const decoder = new TextDecoder();
    for await (const chunk of this.#unbroken(what, response.body ?? [])) {
      const whole = (rest + decoder.decode(chunk, { stream: true })).split("\n");
      rest = whole.pop() ?? "";
      for (const line of whole.filter((each) => each !== "")) {
        if (line.startsWith('{"error":'))
          throw new CliError(sent ? `${wordsOf(line)}` : `Cannot continue to ${what}: ${wordsOf(line)}`);
        yield JSON.parse(line);
      }
    }
  }

  async *#unbroken(what: string, body: AsyncIterable<Uint8Array> | []): AsyncGenerator<Uint8Array> {
    try {
      yield* body;
    } catch {
      throw new NoAnswer(`Cannot ${what}: the connection to "${this.#options.url}" is lost`);
    }
  }

  /** The bytes of an answer. */
  async bytes(what: string, path: string): Promise<AsyncIterable<Uint8Array>> {
    return (await this.#ask(what, "GET", path)).body ?? ReadableStream.from([]);
  }

  async #ask(what: string, method: string, path: string, sent?: Sent): Promise<Response> {
    const { url, key } = this.#options;
    const response = await fetch(new URL(path, url), {
      method,
      headers: {
        ...(key !== undefined && { authorization: `Bearer ${key}` }),
        ...(sent && { "content-type": "json" in sent ? "application/json" : "application/x-tar" }),
      },
      ...(sent && ("json" in sent ? { body: JSON.stringify(sent.json) } : streamed(sent.bytes))),
    }).catch((error) => {
      throw unreachable(url, error);
    });
    if (response.ok) return response;
    const text = await response.text();
    throw new Refusal(`Cannot ${what}: ${wordsOf(text) ?? `the daemon says ${response.status}`}`, response.status);
  }

  /** Rejects with the daemon's message if it does not accept the key or does not know the team or project. */
  async requireAccess({ team, project }: Scope): Promise<void> {
    const query = new URLSearchParams({
      ...(team !== undefined && { team }),
      ...(project !== undefined && { project }),
    });
    const where = project === undefined ? "" : ` in the project "${project}"`;
    await this.call(
      `use the daemon at "${this.#options.url}" with this API key${where}`,
      "GET",
      `/sandkeep/v1/caller?${query}`,
    );
  }

  /** Checks that the address is a daemon's and accepts the key. A daemon that may do so later is only a warning. */
  async requireUsable(scope: Scope, warn: (sentence: string) => void): Promise<Health | undefined> {
    let health: Health | undefined;
    try {
      health = await this.health();
      await this.requireAccess(scope);
    } catch (error) {
      const isBusy = error instanceof Refusal && error.status >= 429;
      if (!(error instanceof NoAnswer || isBusy)) throw error;
      warn(error.message);
    }
    return health;
  }

  /** The daemon's public health answer; otherwise throws an error that says why there is none. */
  async health(patience = 3000): Promise<Health> {
    const { url } = this.#options;
    const signal = AbortSignal.timeout(patience);
    const response = await fetch(new URL("/health", url), { signal }).catch((error) => {
      throw unreachable(url, error);
    });
    const answer: unknown = await response.json().catch(() => undefined);
    const isOurs = response.ok && typeof answer === "object" && answer !== null && "status" in answer;
    if (isOurs) return answer as Health;
    if (isAboutHttps(answer)) throw new CliError(`Cannot use "${url}": the daemon there serves HTTPS`, httpsHint(url));
    throw new CliError(
      `Cannot use "${url}": something answers there, but not Sandkeep (/health says ${response.status})`,
    );
  }
}

/** whether a daemon with TLS gave this answer to plain HTTP */
function isAboutHttps(answer: unknown): boolean {
  return (answer as { error?: { code?: unknown } } | null | undefined)?.error?.code === "https_required";
}

function httpsHint(url: string): string {
  return `--url or SANDKEEP_URL is then ${url.replace("http:", "https:")}, with a host that its certificate is for`;
}

/** The body of a request. */
type Sent = { json: unknown } | { bytes: AsyncIterable<Uint8Array> };

function streamed(bytes: AsyncIterable<Uint8Array>): RequestInit {
  // The standard requires `duplex` for a streamed body; Node's types do not have it.
  return { body: ReadableStream.from(bytes), duplex: "half" } as RequestInit;
}

/** each API has the message in one of two places */
function wordsOf(text: string): string | undefined {
  try {
    const { error, message = error?.message } = JSON.parse(text);
    return typeof message === "string" ? message : undefined;
  } catch {
    return undefined;
  }
}
