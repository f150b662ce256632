/** Calls an API without a socket, like a client with a key of the fake core. */

import type { Answer, Idempotency } from "../../src/api/kit/idempotency.ts";
import { type Api, createApi } from "../../src/api/server.ts";
import { defaultLimits, type VercelLimits } from "../../src/api/vercel/limits.ts";
import { type FakeCore, fakeCore, key, type Overrides, time } from "./fake-core.ts";

export interface Client extends FakeCore {
  api: Api;
  /** errors that the API reported as its own fault */
  logged: unknown[];
  ask(method: string, path: string, body?: unknown, options?: AskOptions): Promise<Reply>;
  send(method: string, path: string, options?: AskOptions & { body?: RequestInit["body"] }): Promise<Response>;
}

export interface AskOptions {
  /** null for none */
  token?: string | null;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export interface Reply {
  status: number;
  headers: Headers;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests read any field of answers
  json: any;
}

export function apiClient(overrides: Overrides = {}, limits: Partial<VercelLimits> = {}): Client {
  const fake = fakeCore(overrides);
  const logged: unknown[] = [];
  const api = createApi({
    core: fake.core,
    idempotency: memoryIdempotency(),
    publicUrl: () => "http://127.0.0.1:7700",
    domain: () => "http://localhost:7700",
    sign: (text) => Buffer.from(text).toString("hex"),
    clock: () => time,
    logError: (error) => void logged.push(error),
    limits: { ...defaultLimits, ...limits },
  });
  const send: Client["send"] = (method, path, { token = key, headers = {}, body, signal } = {}) => {
    const init: RequestInit = {
      method,
      headers: {
        ...(token !== null && { authorization: `Bearer ${token}` }),
        "content-type": "application/json",
        ...headers,
      },
      ...(body !== undefined && { body, duplex: "half" }),
      ...(signal && { signal }),
    };
    return api.fetch(new Request(`http://127.0.0.1:7700${path}`, init));
  };
  return {
    ...fake,
    api,
    logged,
    send,
    async ask(method, path, body, options = {}) {
      const text = typeof body === "string" || body === undefined ? body : JSON.stringify(body);
      const response = await send(method, path, { ...options, ...(text !== undefined && { body: text }) });
      const answer = await response.text();
      return { status: response.status, headers: response.headers, text: answer, json: parsedOrUndefined(answer) };
    },
  };
}

function memoryIdempotency(): Idempotency {
  const answers = new Map<string, Answer | "running">();
  return {
    async begin(name) {
      const there = answers.get(name);
      if (there === undefined) answers.set(name, "running");
      return there ?? "new";
    },
    async end(name, answer) {
      if (answer) answers.set(name, answer);
      else answers.delete(name);
    },
  };
}

function parsedOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
