/** What every route of Vercel's wire begins with: reads the caller, the project, the query and the body. */

import { type Context, Hono } from "hono";
import { getPath } from "hono/utils/url";
import type { z } from "zod";
import type { Caller, Owner } from "../../core/model/sandbox.ts";
import { authenticate } from "../kit/authentication.ts";
import type { Service } from "../kit/dialect.ts";
import { hostnameOf } from "../kit/hosts.ts";
import { addHeaders, bodyText, type Connection, jsonOf, parsed, queryParameters } from "../kit/http.ts";
import { ids } from "../kit/ids.ts";
import { RememberingRouter } from "../kit/routing/remembering-router.ts";
import { errorResponse, notFound } from "./errors.ts";
import type { VercelLimits } from "./limits.ts";
import { RateHeaders } from "./rate-headers.ts";
import type { Schemas } from "./schemas.ts";
import type { Addresses } from "./wire.ts";

/** What the routes get from the daemon. */
export interface Dialect extends Service {
  schemas: Schemas;
  limits: VercelLimits;
}

export type Env = { Variables: { caller: Caller }; Bindings: Connection };
export type VercelContext = Context<Env>;

/** a router that authenticates the caller before any route runs, and answers errors as Vercel does */
export function authenticated({ core, clock, logError }: Dialect): Hono<Env> {
  const app = open(logError);
  const rates = new RateHeaders(clock);
  app.use(async (c, next) => {
    const caller = await authenticate(core, c.req, /\/fs\/read$/);
    c.set("caller", caller);
    const left = rates.count(caller.teamId, c.req.method, c.req.path);
    await next();
    addHeaders(c.res, left);
  });
  return app;
}

/** a router without authentication; the base path of the vendor's SDK, `/api`, is optional */
export function open(logError: (error: unknown) => void): Hono<Env> {
  const app = new Hono<Env>({
    router: new RememberingRouter(),
    getPath: (request) => getPath(request).replace(/^\/api(?=\/v\d)/, ""),
  });
  app.onError((error) => errorResponse(error, logError));
  app.notFound(() => errorResponse(notFound("Not found."), logError));
  return app;
}

/** the caller, after checking that it belongs to the team in the query: for routes that name a thing by its id */
export async function callerOf(c: VercelContext, { core }: Dialect, scope: Scope): Promise<Caller> {
  const caller = c.get("caller");
  const others = [scope.teamId, scope.slug].filter((team) => team !== undefined && team !== caller.teamId);
  for (const team of others) await core.access.team(caller, team);
  return caller;
}

/** the project of a request, by its id or name */
export async function ownerOf(c: VercelContext, dialect: Dialect, scope: Scope, project?: string): Promise<Owner> {
  const caller = await callerOf(c, dialect, scope);
  return dialect.core.access.owner(caller, { project });
}

export interface Scope {
  teamId?: string | undefined;
  slug?: string | undefined;
}

/**
 * The Python SDK returns a port's URL unchanged, and Python does not resolve names below .localhost. Our sitecustomize
 * module makes Python resolve them, and says so in a header.
 */
export function addressesFor(c: VercelContext, dialect: Dialect): Addresses {
  const domain = dialect.domain();
  const isPython = c.req.header("user-agent")?.startsWith("vercel-sandbox/") ?? false;
  const isLocal = () =>
    hostnameOf(domain.replace(/^\w+:\/\//, "")) === "localhost" && c.req.header("sandkeep-resolves") !== "localhost";
  return { domain, daemon: dialect.publicUrl(), isByPath: isPython && isLocal() };
}

/** Members whose names begin with two underscores are private to the vendor's clients; all of them are accepted. */
export type Private = Record<string, unknown>;

export interface Sent<T> {
  value: T;
  private: Private;
  /** the body as received */
  text: string;
}

/** the JSON body; no body is an empty object */
export async function bodyOf<S extends z.ZodType>(
  c: VercelContext,
  dialect: Dialect,
  schema: S,
): Promise<Sent<z.output<S>>> {
  const text = await bodyText(c.req.raw, dialect.limits.body);
  const { own, hidden } = apart(jsonOf(text));
  return { value: parsed(schema, own), private: hidden, text };
}

export function queryOf<S extends z.ZodType>(c: VercelContext, schema: S): { value: z.output<S>; private: Private } {
  const { own, hidden } = apart(queryParameters(c));
  return { value: parsed(schema, own), private: hidden };
}

/** whether the caller asks for the platform's own routes */
export function wantsSystemRoutes(hidden: Private): boolean {
  return [hidden.__interactive, hidden.__includeSystemRoutes].some((value) => value === true || value === "true");
}

/** an id in the path; an invalid id is not looked up */
export function idOf(c: VercelContext, name: "sessionId" | "commandId" | "snapshotId"): string {
  const id = c.req.param(name) ?? "";
  const { pattern, noun } = kinds[name];
  if (!pattern.test(id)) throw notFound(`${noun} not found.`);
  return id;
}

const kinds = {
  sessionId: { pattern: ids.session, noun: "Session" },
  commandId: { pattern: ids.command, noun: "Command" },
  snapshotId: { pattern: ids.snapshot, noun: "Snapshot" },
};

function apart(value: unknown): { own: unknown; hidden: Private } {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return { own: value, hidden: {} };
  const isHidden = ([key]: [string, unknown]) => key.startsWith("__");
  const entries = Object.entries(value);
  return {
    own: Object.fromEntries(entries.filter((entry) => !isHidden(entry))),
    hidden: Object.fromEntries(entries.filter(isHidden)),
  };
}
