/** A client of the daemon's own API that knows only its OpenAPI document, and checks every answer against it. */

import { randomUUID } from "node:crypto";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { expect } from "vitest";
import type { OpenApi, OpenApiOperation, OpenApiParameter } from "../../../src/api/sandkeep/frame/openapi.ts";
import type { TestDaemon } from "../../harness/daemon.ts";

export interface Documented extends OpenApiOperation {
  method: string;
  path: string;
}

export interface Sent {
  params?: Record<string, string>;
  query?: Record<string, unknown>;
  /** JSON; a text is sent as it is */
  body?: unknown;
  /** a body of another type */
  bytes?: Uint8Array;
  headers?: Record<string, string>;
  /** null for none */
  key?: string | null;
}

export interface Received {
  status: number;
  headers: Headers;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests read any field of answers
  json: any;
}

export class DocumentClient {
  readonly operations: Map<string, Documented>;
  /** ids of operations that have succeeded */
  readonly succeeded = new Set<string>();
  /** whether call() sends each request that takes an Idempotency-Key twice, and expects the first answer again */
  repeats = false;
  /** ids of operations that have given their first answer again */
  readonly repeated = new Set<string>();
  readonly #daemon: Pick<TestDaemon, "url" | "key">;
  readonly #ajv: Ajv2020;
  readonly #validators = new Map<string, ValidateFunction>();

  constructor(daemon: Pick<TestDaemon, "url" | "key">, document: OpenApi) {
    this.#daemon = daemon;
    this.#ajv = new Ajv2020({ strict: false, allErrors: true, formats: { uri: true } });
    this.#ajv.addSchema({ ...document, $id: "document" });
    const all = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]): Documented => ({ ...operation, method, path })),
    );
    this.operations = new Map(all.map((operation) => [operation.operationId, operation]));
  }

  static async of(daemon: Pick<TestDaemon, "url" | "key">): Promise<DocumentClient> {
    const response = await fetch(`${daemon.url}/sandkeep/v1/openapi.json`);
    return new DocumentClient(daemon, (await response.json()) as OpenApi);
  }

  /** the answer of a request that must succeed */
  async call(id: string, given: Sent = {}): Promise<Received> {
    const isRepeated = this.repeats && takesKey(this.operation(id)) && given.headers === undefined;
    const sent = isRepeated ? { ...given, headers: { "idempotency-key": randomUUID() } } : given;
    const received = await this.send(id, sent);
    const title = `${id} ${JSON.stringify(sent)}: ${received.status} ${received.text.slice(0, 500)}`;
    expect(received.status, title).toBeLessThan(300);
    this.succeeded.add(id);
    if (isRepeated) {
      const { status, text } = await this.send(id, sent);
      expect({ status, text }, `${id}, repeated`).toEqual({ status: received.status, text: received.text });
      this.repeated.add(id);
    }
    return received;
  }

  async send(id: string, sent: Sent = {}): Promise<Received> {
    const operation = this.operation(id);
    const response = await this.request(operation, sent);
    const text = await response.text();
    const received = { status: response.status, headers: response.headers, text, json: parsedOrUndefined(text) };
    this.#check(operation, received);
    return received;
  }

  /** a request whose answer may never end */
  request(operation: Documented, { params = {}, query = {}, body, bytes, headers = {}, key }: Sent): Promise<Response> {
    const path = operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
      encodeURIComponent(params[name] ?? "none"),
    );
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) {
      for (const each of Array.isArray(value) ? value : [value]) search.append(name, String(each));
    }
    const [type = "application/json"] = Object.keys(operation.requestBody?.content ?? {});
    const sent = bytes ?? (body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body));
    return fetch(`${this.#daemon.url}/sandkeep/v1${path}?${search}`, {
      method: operation.method.toUpperCase(),
      headers: {
        ...(key !== null && { authorization: `Bearer ${key ?? this.#daemon.key}` }),
        ...(sent !== undefined && { "content-type": type }),
        ...headers,
      },
      ...(sent !== undefined && { body: sent }),
    });
  }

  operation(id: string): Documented {
    const operation = this.operations.get(id);
    if (!operation) throw new Error(`The document has no operation ${id}`);
    return operation;
  }

  /** the schema of a parameter or a body, with references followed */
  resolved(schema: Record<string, unknown>): Record<string, unknown> {
    const reference = schema.$ref;
    if (typeof reference !== "string") return schema;
    return this.#ajv.getSchema(`document${reference}`)?.schema as Record<string, unknown>;
  }

  #check(operation: Documented, { status, headers, json, text }: Received): void {
    const title = `${operation.operationId}: ${status} ${text.slice(0, 300)}`;
    const [range] = [String(status), `${String(status)[0]}XX`].filter((key) => key in operation.responses);
    if (range === undefined && status === 206) return;
    expect(range, `${title} is not documented`).toBeDefined();
    const { content } = operation.responses[range ?? ""] ?? {};
    if (!content) return void expect(text, title).toBe("");
    const type = (headers.get("content-type") ?? "").split(";")[0] ?? "";
    expect(Object.keys(content), title).toContain(type);
    const pointer = `/paths/${escaped(operation.path)}/${operation.method}/responses/${range}/content/${escaped(type)}/schema`;
    if (!content[type]?.schema) return;
    const values = type === "application/x-ndjson" ? linesOf(text) : type === "application/json" ? [json] : [];
    for (const value of values) {
      if ("error" in value && type === "application/x-ndjson") continue;
      const validate = this.#validator(`document#${pointer}`);
      expect(validate(value) ? [] : validate.errors, title).toEqual([]);
    }
  }

  #validator(reference: string): ValidateFunction {
    const there = this.#validators.get(reference);
    if (there) return there;
    const made = this.#ajv.compile({ $ref: reference });
    this.#validators.set(reference, made);
    return made;
  }
}

export function takesKey({ parameters }: Documented): boolean {
  return parameters.some(({ name }) => name === "Idempotency-Key");
}

export function linesOf(text: string): Record<string, unknown>[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));
}

/** parameters of one kind */
export function parametersOf({ parameters }: Documented, where: OpenApiParameter["in"]): OpenApiParameter[] {
  return parameters.filter((parameter) => parameter.in === where);
}

function escaped(text: string): string {
  return encodeURIComponent(text.replaceAll("~", "~0").replaceAll("/", "~1"));
}

function parsedOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
