/** What every route of InstaVM's wire begins with: reads the caller, the session or machine, the query and the body. */

import { type Context, Hono } from "hono";
import type { z } from "zod";
import type { Core } from "../../core/core.ts";
import { isSandkeepError, SandkeepError } from "../../core/model/errors.ts";
import type { Owner, Sandbox, Session } from "../../core/model/sandbox.ts";
import { bearerOf, requireRead } from "../kit/authentication.ts";
import type { Service } from "../kit/dialect.ts";
import {
  abortWhenEnded,
  addressOf,
  bodyBytes,
  bodyText,
  type Connection,
  jsonOf,
  parsed,
  queryParameters,
} from "../kit/http.ts";
import { ids } from "../kit/ids.ts";
import { Refusal } from "../kit/refusal.ts";
import { errorResponse, located, notFound, Unprocessable, words } from "./errors.ts";
import type { Schemas } from "./schemas.ts";

/** What the routes get from the daemon. */
export interface Dialect extends Pick<Service, "core" | "publicUrl" | "domain" | "clock" | "logError"> {
  schemas: Schemas;
  limits: InstavmLimits;
}

/** Limits of the host, which may be lower than those of the wire. */
export interface InstavmLimits {
  vcpus: number;
  /** longest a machine may run, in ms */
  lifetime: number;
  ports: number;
  /** bytes of a volume */
  volume: number;
}

/** most bytes of a JSON body, and of a file that is transferred in one piece */
export const longestBody = 4 * 2 ** 20;
export const longestFile = 64 * 2 ** 20;

export type Env = { Variables: { owner: Owner | undefined }; Bindings: Connection };
export type InstavmContext = Context<Env>;

/** a router that authenticates the caller before any route runs, except for the few that take the key in the body */
export function router({ core, logError }: Dialect): Hono<Env> {
  const app = new Hono<Env>({ strict: false });
  app.onError((error) => errorResponse(error, logError));
  app.notFound(() => errorResponse(new Refusal(404, "Not Found"), logError));
  app.use(async (c, next) => {
    // Clients that send the key in the body still send an empty header.
    const key = c.req.header("x-api-key") || undefined;
    const hasKey = key !== undefined || c.req.header("authorization") !== undefined;
    if (hasKey) {
      const owner = await ownerWith(core, c.req.raw, key ?? bearerOf(c.req.raw));
      requireRead(owner, c.req, /^\/download\/?$/);
      c.set("owner", owner);
    } else if (!takesKeyInBody(c.req.method, c.req.path))
      throw new SandkeepError("unauthenticated", "Cannot authenticate: there is no key");
    await next();
  });
  return app;
}

export function ownerOf(c: InstavmContext): Owner {
  const owner = c.get("owner");
  if (!owner) throw new SandkeepError("unauthenticated", "Cannot authenticate: there is no key");
  return owner;
}

/** the owner for a route whose body may carry the key; keys in both header and body must be the same */
export async function ownerByBody(c: InstavmContext, { core }: Dialect, key: string | undefined): Promise<Owner> {
  const byHeader = c.get("owner");
  if (key === undefined && byHeader) return byHeader;
  if (key === undefined) throw new Unprocessable([{ loc: ["body", "api_key"], msg: words.missing, type: "missing" }]);
  const byBody = await ownerWith(core, c.req.raw, key);
  if (byHeader && byHeader.keyId !== byBody.keyId)
    throw new SandkeepError("unauthenticated", "Cannot authenticate: the header and the body have different keys");
  requireRead(byBody, c.req);
  return byBody;
}

/** the JSON body; no body is an empty object */
export async function bodyOf<S extends z.ZodType>(c: InstavmContext, schema: S): Promise<z.output<S>> {
  const text = await bodyText(c.req.raw, longestBody).catch((error: unknown) => {
    if (!isSandkeepError(error, "invalid")) throw error;
    throw new Unprocessable([{ loc: ["body"], msg: error.message, type: "json_invalid" }]);
  });
  return located("body", () => parsed(schema, jsonOf(text)));
}

export function queryOf<S extends z.ZodType>(c: InstavmContext, schema: S): z.output<S> {
  return located("query", () => parsed(schema, queryParameters(c)));
}

/** a form's fields, each given once; `file` may be a file */
export async function formOf<S extends z.ZodType>(c: InstavmContext, schema: S): Promise<z.output<S>> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of bodyBytes(c.req.raw)) {
    length += chunk.length;
    if (length > longestFile) throw new Refusal(413, `Cannot take the request: it is longer than ${longestFile} bytes`);
    chunks.push(chunk);
  }
  const type = c.req.header("content-type") ?? "";
  const form = await new Response(Buffer.concat(chunks), { headers: { "content-type": type } })
    .formData()
    .catch(() => undefined);
  if (!form) throw new Unprocessable([{ loc: ["body"], msg: "The body should be a form", type: "value_error" }]);
  const names = [...new Set(form.keys())];
  const fields = names.map((name) => [name, form.getAll(name).length === 1 ? form.get(name) : form.getAll(name)]);
  return located("body", () => parsed(schema, Object.fromEntries(fields)));
}

/** a session of this wire, which is a sandbox: by its id, or by its name if another wire gave it one */
export async function sessionOf({ core }: Dialect, owner: Owner, id: string): Promise<Sandbox> {
  if (ids.sandbox.test(id)) {
    const sandbox = await core.sandboxes.byId(owner, id).catch((error: unknown) => {
      if (isSandkeepError(error, "not-found") || isSandkeepError(error, "forbidden", "sandbox")) return undefined;
      throw error;
    });
    if (sandbox) return sandbox;
  }
  if (!name.test(id)) throw notFound("Session");
  return (await orNotFound(core.sandboxes.get(owner, id), "Session")).sandbox;
}

/** a machine of this wire, which is a session of the core; after a suspend and resume, the session that followed */
export async function vmOf({ core }: Dialect, owner: Owner, id: string): Promise<Vm> {
  if (!ids.session.test(id)) throw notFound("VM");
  const session = await orNotFound(core.sessions.successor(owner, id), "VM");
  return { session, sandbox: await core.sessions.sandboxOf(owner, session.id) };
}

/** the current machine of a session, which may have ended */
export async function vmOfSession(dialect: Dialect, owner: Owner, id: string): Promise<Vm> {
  const sandbox = await sessionOf(dialect, owner, id);
  return { sandbox, session: await dialect.core.sessions.get(owner, sandbox.currentSessionId) };
}

export interface Vm {
  session: Session;
  sandbox: Sandbox;
}

/** awaits the promise; words `not-found` with this wire's noun */
export async function orNotFound<T>(promise: Promise<T>, noun: string): Promise<T> {
  try {
    return await promise;
  } catch (error) {
    throw isSandkeepError(error, "not-found") ? notFound(noun) : error;
  }
}

/** an id in the path; an invalid id is not looked up */
export function idOf(c: InstavmContext, kind: keyof typeof kinds): string {
  const id = c.req.param("id") ?? "";
  if (!kinds[kind].test(id)) throw notFound(kind);
  return id;
}

const name = /^[A-Za-z0-9_-]{1,128}$/;
const kinds = {
  Execution: ids.command,
  Snapshot: ids.snapshot,
  Volume: ids.drive,
  Share: /^[a-z0-9-]{1,63}$/,
  "API key": ids.key,
};

async function ownerWith(core: Core, request: Request, key: string): Promise<Owner> {
  if (!/^\S{1,8192}$/.test(key))
    throw new SandkeepError("unauthenticated", "Cannot authenticate: the key is malformed");
  const caller = await core.access.authenticate(key, addressOf(request));
  abortWhenEnded(request, caller.ended);
  return core.access.owner(caller, {});
}

function takesKeyInBody(method: string, path: string): boolean {
  return method === "POST" && /^\/(v1\/sessions\/session|execute|execute_async)\/?$/.test(path);
}
