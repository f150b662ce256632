/**
 * A typed client of the daemon's own API, for programs on Node and pages in browsers. Each operation is called by its id
 * in the OpenAPI document; the compiler checks what it takes and what it returns.
 */

import type { BeyondProjects, Input, Line, OperationId, Output, Routes, Scope } from "./types.ts";

export interface ClientOptions<A extends Answer = Response> {
  /** address of the daemon, such as "http://127.0.0.1:7700" */
  url: string;
  key?: string;
  /** further headers of every request */
  headers?: () => Record<string, string>;
  /** the team and project of requests that do not name them; by default those of the key */
  scope?: Scope;
  /** in place of the global one */
  fetch?: (request: Request) => Promise<Response>;
  /** in place of any `fetch`, for programs to whose start its loading matters */
  transport?: Transport<A>;
}

/** Sends a request, and returns the answer as soon as its headers are there. */
export type Transport<A extends Answer> = (address: URL, request: SentRequest) => Promise<A>;

export interface SentRequest {
  method: string;
  headers: Record<string, string>;
  body?: NonNullable<RequestInit["body"]>;
  signal?: AbortSignal;
}

/** What the client needs of an answer; a Response has all of it. */
export interface Answer {
  ok: boolean;
  status: number;
  headers: { get(name: string): string | null };
  body: AsyncIterable<Uint8Array> | null;
  text(): Promise<string>;
}

/** The daemon has refused a request, or a stream has broken off. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  /** the answer's status; 0 at the end of a stream */
  readonly status: number;
  readonly code: string;
  /** the member or parameter that is invalid */
  readonly field: string | undefined;
  /** names the request in the daemon's log */
  readonly requestId: string | undefined;

  constructor(status: number, { code, message, field }: ErrorBody["error"], requestId?: string) {
    super(message);
    this.status = status;
    this.code = code;
    this.field = field;
    this.requestId = requestId;
  }
}

interface ErrorBody {
  error: { code: string; message: string; field?: string };
}

/** What all requests have in common, whatever their operation. */
interface Sent {
  params?: Record<string, string>;
  query?: Record<string, unknown>;
  body?: unknown;
  bytes?: NonNullable<RequestInit["body"]>;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

type Event = Output<"readEvents">["events"][number];

/** ms before a stream of events that broke off is opened again; grows to the last */
const pauses = [100, 500, 2000, 5000];

export class SandkeepClient<A extends Answer = Response> {
  readonly #options: ClientOptions<A>;

  constructor(options: ClientOptions<A>) {
    this.#options = options;
  }

  /** the JSON of a successful answer; undefined if it has none */
  async call<Id extends OperationId>(id: Id, ...input: Needed<Input<Id>>): Promise<Output<Id>> {
    const text = await (await this.send(id, ...input)).text();
    // The daemon's own schema describes the answer.
    return (text === "" ? undefined : JSON.parse(text)) as Output<Id>;
  }

  /** the lines of a stream, as they come; throws if it breaks off with an error */
  async *lines<Id extends OperationId>(id: Id, ...input: Needed<Input<Id>>): AsyncGenerator<Line<Id>> {
    for await (const line of textLines(await this.send(id, ...input))) {
      if (line === "") continue;
      const value = JSON.parse(line);
      if (isErrorBody(value)) throw new ApiError(0, value.error);
      yield value;
    }
  }

  /** the successful answer itself, such as for its bytes; throws ApiError for any other */
  async send<Id extends OperationId>(id: Id, ...input: Needed<Input<Id>>): Promise<A> {
    // Every input has these members, each perhaps with a narrower type.
    const [sent = {}] = input as [Sent?];
    const response = await this.#answerTo(...this.#request(id, sent));
    if (response.ok) return response;
    const body = jsonOf(await response.text().catch(() => ""));
    const error = isErrorBody(body)
      ? body.error
      : { code: "unknown", message: `The daemon answered with status ${response.status}` };
    throw new ApiError(response.status, error, response.headers.get("x-request-id") ?? undefined);
  }

  /**
   * Events from now on, or after a cursor, until the signal aborts. A connection that breaks off is opened again after
   * the last event. An event of type "gap" means that some are lost: read the lists again.
   */
  async *events(query: { after?: string; topics?: string; project?: string; team?: string }, signal?: AbortSignal) {
    let { after } = query;
    for (let failures = 0; !signal?.aborted; ) {
      try {
        const headers = { accept: "text/event-stream" };
        const sent = { query: { ...query, ...(after !== undefined && { after }) }, headers, ...(signal && { signal }) };
        for await (const event of eventsOf(await this.send("readEvents", sent))) {
          failures = 0;
          after = event.cursor;
          yield event;
        }
      } catch (error) {
        const isFinal = error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429;
        if (isFinal || signal?.aborted) throw error;
      }
      const pause = pauses[Math.min(failures++, pauses.length - 1)];
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }

  async #answerTo(address: URL, request: SentRequest): Promise<A> {
    const { transport, fetch: own = fetch } = this.#options;
    if (transport) return transport(address, request);
    // The standard requires `duplex` for a streamed body; Node's types do not have it.
    const init = { ...request, ...(request.body !== undefined && ({ duplex: "half" } as RequestInit)) };
    // Without a transport, A is its default.
    return (await own(new Request(address, init))) as unknown as A;
  }

  #request(id: OperationId, { params = {}, query = {}, body, bytes, headers, signal }: Sent): [URL, SentRequest] {
    const { url, key, headers: further = () => ({}), scope = {} } = this.#options;
    const [method = "", template = ""] = routes[id].split(" ");
    const path = "sandbox" in params ? template.replace("/sessions/{session}/", "/sandboxes/{sandbox}/") : template;
    const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? ""));
    const address = new URL(`/sandkeep/v1${filled}`, url);
    for (const [name, value] of Object.entries({ ...scopeFor(id, params, scope), ...query })) {
      for (const each of [value].flat()) if (each !== undefined) address.searchParams.append(name, String(each));
    }
    const sent = bytes ?? (body === undefined ? undefined : JSON.stringify(body));
    const request: SentRequest = {
      method,
      headers: {
        ...(key !== undefined && { authorization: `Bearer ${key}` }),
        ...(body !== undefined && { "content-type": "application/json" }),
        ...further(),
        ...headers,
      },
      ...(sent !== undefined && { body: sent }),
      ...(signal && { signal }),
    };
    return [address, request];
  }
}

/** what of a scope an operation takes: one that is about a session needs no project */
function scopeFor(id: OperationId, params: Record<string, string>, { team, project }: Scope): Scope {
  const subject = Object.hasOwn(beyondProjects, id) ? beyondProjects[id as keyof BeyondProjects] : "project";
  if (subject === "host") return {};
  return subject === "team" || "session" in params ? { team } : { team, project };
}

/** undefined if it is not JSON */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** the argument, which may be left out if all its members may */
type Needed<I> = Record<never, never> extends I ? [input?: I] : [input: I];

function isErrorBody(value: unknown): value is ErrorBody {
  if (typeof value !== "object" || value === null || !("error" in value)) return false;
  const { error } = value;
  return typeof error === "object" && error !== null && "message" in error && typeof error.message === "string";
}

/** Only whole lines are decoded: a decoder that is asked to wait for the rest of a character starts a slow converter. */
async function* textLines({ body }: Answer): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  let rest: Uint8Array[] = [];
  for await (const chunk of body ?? []) {
    const end = chunk.lastIndexOf(newline) + 1;
    if (end > 0) {
      yield* decoder.decode(joined([...rest, chunk.subarray(0, end - 1)])).split("\n");
      rest = [];
    }
    if (end < chunk.length) rest.push(chunk.subarray(end));
  }
}

const newline = 10;

function joined(parts: Uint8Array[]): Uint8Array {
  const [first, ...others] = parts;
  if (first && others.length === 0) return first;
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** the events of a server-sent stream; throws if it breaks off with an error */
async function* eventsOf(response: Answer): AsyncGenerator<Event> {
  for await (const line of textLines(response)) {
    if (!line.startsWith("data: ")) continue;
    const value = JSON.parse(line.slice("data: ".length));
    if (isErrorBody(value)) throw new ApiError(0, value.error);
    yield value;
  }
}

/** The method and path of each operation. The compiler compares them with the declarations. */
export const routes: Routes = {
  listSandboxes: "GET /sandboxes",
  createSandbox: "POST /sandboxes",
  countSandboxes: "GET /sandboxes/count",
  getSandbox: "GET /sandboxes/{sandbox}",
  changeSandbox: "PATCH /sandboxes/{sandbox}",
  deleteSandbox: "DELETE /sandboxes/{sandbox}",
  resumeSandbox: "POST /sandboxes/{sandbox}/resume",
  forkSandbox: "POST /sandboxes/{sandbox}/fork",
  listActivity: "GET /activity",
  getTape: "GET /sandboxes/{sandbox}/tape",
  listSessions: "GET /sessions",
  getSession: "GET /sessions/{session}",
  stopSession: "POST /sessions/{session}/stop",
  pauseSession: "POST /sessions/{session}/pause",
  extendSession: "POST /sessions/{session}/extend",
  createSnapshot: "POST /sessions/{session}/snapshots",
  getUsage: "GET /sessions/{session}/usage",
  getLoad: "GET /sessions/{session}/load",
  runProgram: "POST /runs",
  listUsageSamples: "GET /sessions/{session}/usage/samples",
  startCommand: "POST /sessions/{session}/commands",
  listCommands: "GET /sessions/{session}/commands",
  getCommand: "GET /sessions/{session}/commands/{command}",
  waitForCommand: "GET /sessions/{session}/commands/{command}/wait",
  readOutput: "GET /sessions/{session}/commands/{command}/output",
  writeInput: "POST /sessions/{session}/commands/{command}/input",
  signalCommand: "POST /sessions/{session}/commands/{command}/signal",
  resizeTerminal: "POST /sessions/{session}/commands/{command}/resize",
  listFiles: "GET /sessions/{session}/files",
  removeFile: "DELETE /sessions/{session}/files",
  statFile: "GET /sessions/{session}/files/stat",
  readFile: "GET /sessions/{session}/files/content",
  writeFile: "PUT /sessions/{session}/files/content",
  makeDirectory: "POST /sessions/{session}/files/directories",
  moveFile: "POST /sessions/{session}/files/move",
  watchFiles: "GET /sessions/{session}/files/watch",
  readArchive: "GET /sessions/{session}/files/archive",
  writeArchive: "PUT /sessions/{session}/files/archive",
  setNetworkPolicy: "PUT /sandboxes/{sandbox}/network-policy",
  setSessionNetworkPolicy: "PUT /sessions/{session}/network-policy",
  listPorts: "GET /sandboxes/{sandbox}/ports",
  openPort: "PUT /sandboxes/{sandbox}/ports/{port}",
  closePort: "DELETE /sandboxes/{sandbox}/ports/{port}",
  readEgressLog: "GET /sessions/{session}/egress",
  listEgress: "GET /egress",
  suggestPolicy: "GET /sessions/{session}/egress/suggestion",
  listSnapshots: "GET /snapshots",
  getSnapshot: "GET /snapshots/{snapshot}",
  changeSnapshot: "PATCH /snapshots/{snapshot}",
  deleteSnapshot: "DELETE /snapshots/{snapshot}",
  getSnapshotTree: "GET /snapshots/{snapshot}/tree",
  compareSnapshot: "GET /snapshots/{snapshot}/diff",
  createImageFromSnapshot: "POST /snapshots/{snapshot}/image",
  buildImage: "POST /builds",
  listImages: "GET /images",
  getImage: "GET /images/details",
  deleteImage: "DELETE /images",
  exportImage: "GET /images/archive",
  pullImage: "POST /images/pull",
  pruneImages: "POST /images/prune",
  listImageAliases: "GET /images/aliases",
  putImageAlias: "PUT /images/aliases",
  deleteImageAlias: "DELETE /images/aliases",
  listDrives: "GET /drives",
  getDrive: "GET /drives/{drive}",
  putDrive: "PUT /drives/{drive}",
  resizeDrive: "PATCH /drives/{drive}",
  deleteDrive: "DELETE /drives/{drive}",
  forkDrive: "POST /drives/{drive}/fork",
  readEvents: "GET /events",
  listWebhooks: "GET /webhooks",
  createWebhook: "POST /webhooks",
  getWebhook: "GET /webhooks/{webhook}",
  changeWebhook: "PATCH /webhooks/{webhook}",
  deleteWebhook: "DELETE /webhooks/{webhook}",
  rotateWebhookSecret: "POST /webhooks/{webhook}/secret",
  testWebhook: "POST /webhooks/{webhook}/test",
  listDeliveries: "GET /webhooks/{webhook}/deliveries",
  redeliver: "POST /webhooks/{webhook}/deliveries/{delivery}/redeliver",
  getCaller: "GET /caller",
  listTeams: "GET /teams",
  createTeam: "POST /teams",
  deleteTeam: "DELETE /teams/{team}",
  listProjects: "GET /projects",
  createProject: "POST /projects",
  getProject: "GET /projects/{project}",
  listKeys: "GET /keys",
  createKey: "POST /keys",
  renameKey: "PATCH /keys/{key}",
  deleteKey: "DELETE /keys/{key}",
  getQuota: "GET /quota",
  setQuota: "PUT /quota",
  getKeyQuota: "GET /keys/{key}/quota",
  setKeyQuota: "PUT /keys/{key}/quota",
  listAudit: "GET /audit",
  getCapacity: "GET /host/capacity",
  getDiagnosis: "GET /host/doctor",
  upgradeHost: "POST /upgrade",
};

/** The operations that take no project, and what each is about. The compiler compares them with the declarations. */
const beyondProjects: BeyondProjects = {
  setQuota: "team",
  getQuota: "team",
  getKeyQuota: "team",
  setKeyQuota: "team",
  listKeys: "team",
  createKey: "team",
  renameKey: "team",
  deleteKey: "team",
  listAudit: "team",
  getSnapshot: "team",
  changeSnapshot: "team",
  deleteSnapshot: "team",
  createImageFromSnapshot: "team",
  listProjects: "team",
  createProject: "team",
  getProject: "team",
  listImages: "team",
  getImage: "team",
  deleteImage: "team",
  exportImage: "team",
  setSessionNetworkPolicy: "team",
  pruneImages: "host",
  listImageAliases: "host",
  putImageAlias: "host",
  deleteImageAlias: "host",
  getCapacity: "host",
  getDiagnosis: "host",
  upgradeHost: "host",
  listTeams: "host",
  createTeam: "host",
  deleteTeam: "host",
};
