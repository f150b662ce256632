/**
 * The mount table: which dialect answers a request, by its path and, where two vendors own the same path, by the
 * credential it carries. Rows are tried from the top.
 */

import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { Core } from "../core/core.ts";
import { createInstavm, instavmPaths } from "./instavm/instavm.ts";
import { forBrowsers, preflight } from "./kit/browsers.ts";
import { isOwnHost } from "./kit/hosts.ts";
import { type Connection, json } from "./kit/http.ts";
import type { Idempotency } from "./kit/idempotency.ts";
import { mcpApi, mcpPaths } from "./mcp/mcp.ts";
import { metricsApi, metricsPath } from "./sandkeep/metrics.ts";
import { sandkeepApi, sandkeepPaths } from "./sandkeep/sandkeep.ts";
import { Interactive } from "./vercel/interactive.ts";
import { defaultLimits, type VercelLimits } from "./vercel/limits.ts";
import type { Dialect } from "./vercel/request.ts";
import { schemas } from "./vercel/schemas.ts";
import { vercelApi, vercelLogin } from "./vercel/vercel.ts";
import { veryfrontApi } from "./veryfront/veryfront.ts";

export interface ApiOptions {
  core: Core;
  idempotency: Idempotency;
  /** the address of this daemon as its clients know it: "http://127.0.0.1:7700" */
  publicUrl: () => string;
  /** where labels lead to sandboxes, and how one gets there: "http://localhost:7700" */
  domain: () => string;
  limits?: Partial<VercelLimits>;
  /** what the tokens of forwarded requests are checked with: a JSON Web Key Set */
  jwks?: () => object;
  /** for tests only: what the conformance suite of MCP asks for is there too */
  conformanceFixtures?: boolean;
  /** further names that this daemon is reached by */
  allowedHosts?: string[];
  /** whether the daemon is going away, and its connections with it */
  closing?: () => boolean;
  /** aborted when streams have to end, because the daemon does */
  ending?: AbortSignal;
  /** ms since 1970 */
  clock: () => number;
  /** told of what is our own fault */
  trouble: (error: unknown) => void;
}

export interface Api {
  /** Node's server hands the connection along; without one, a body that breaks off ends in an error */
  fetch(request: Request, connection?: Connection): Promise<Response>;
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
}

/** A row: which requests are this dialect's. */
interface Mount {
  owns(path: string, request: Request): boolean;
  /** whether pages in browsers may use it with a key */
  forPages?: boolean;
  app: { fetch(request: Request, connection?: Connection): Response | Promise<Response> };
}

export function createApi(options: ApiOptions): Api {
  const limits = { ...defaultLimits, ...options.limits };
  const vercel: Dialect = {
    ...options,
    publicUrl: () => options.publicUrl().replace(/\/$/, ""),
    limits,
    schemas: schemas(limits),
  };
  const interactive = new Interactive(vercel);
  const { vcpus, timeout: lifetime, ports, driveSize: volume } = limits;
  const instavm = createInstavm({ ...vercel, limits: { vcpus, lifetime, ports, volume } });
  const api = vercelApi(vercel, interactive);
  const { closing = () => false } = options;

  const mounts: Mount[] = [
    {
      owns: matching(/^\/health$/),
      app: { fetch: () => json({ status: "ok", domain: new URL(options.domain()).hostname }) },
    },
    {
      owns: (path, { method }) => path === "/" && (method === "GET" || method === "HEAD"),
      app: { fetch: () => welcome(options.publicUrl()) },
    },
    { owns: matching(metricsPath), app: metricsApi(vercel) },
    { owns: matching(/^\/\.well-known\/jwks$/), app: { fetch: () => json(options.jwks?.() ?? { keys: [] }) } },
    {
      owns: matching(/^\/(\.well-known\/openid-configuration$|api\/login\/|login\/device$)/),
      app: vercelLogin(vercel),
    },
    // Version 1 is nobody else's: who comes without a key is told so in its words.
    { owns: matching(/^\/(api\/v\d+\/|v1\/sandboxes(\/|$))/), app: api, forPages: true },
    { owns: matching(instavmPaths), app: instavm.app, forPages: true },
    {
      owns: matching(/^\/(sandbox-sessions|veryfront)(\/|$)/),
      app: veryfrontApi({ ...vercel, closing }),
      forPages: true,
    },
    // E2B: /e2b/…, and with X-API-Key /sandboxes…, /v2/sandboxes…, /templates…
    { owns: matching(mcpPaths), app: mcpApi({ conformanceFixtures: false, ...vercel, closing }) },
    { owns: matching(sandkeepPaths), app: sandkeepApi(vercel), forPages: true },
    // Who comes with no credential at all is told so; another vendor's key is not ours to judge.
    { owns: withoutKey(/^\/v\d+\//), app: api, forPages: true },
  ];
  const isOwn = (host: string | null | undefined) => {
    const own = [options.publicUrl(), options.domain()].map((url) => new URL(url).hostname);
    return isOwnHost(host, [...own, ...(options.allowedHosts ?? [])]);
  };

  return {
    async fetch(request, connection) {
      const { pathname } = new URL(request.url);
      const mount = mounts.find(({ owns }) => owns(pathname, request));
      // Whoever looks whether a server lives may call it what they like.
      if (pathname !== "/health" && !isOwn(request.headers.get("host"))) return foreignHost(request);
      if (!mount) return json({ error: { code: "not_found", message: "Not found." } }, 404);
      if (!mount.forPages) return worthAgain(await mount.app.fetch(request, connection));
      return preflight(request) ?? forBrowsers(worthAgain(await mount.app.fetch(request, connection)));
    },
    upgrade(request, socket, head) {
      if (!isOwn(request.headers.host)) return refuse(socket, "403 Forbidden");
      if (interactive.upgrade(request, socket, head) || instavm.terminals.upgrade(request, socket, head)) return;
      refuse(socket, "404 Not Found");
    },
  };
}

/** whoever is told that the daemon cannot answer now is told when to ask again, in seconds */
function worthAgain(response: Response): Response {
  if (response.status === 503 && !response.headers.has("retry-after")) response.headers.set("retry-after", "1");
  return response;
}

function refuse(socket: Duplex, status: string): void {
  socket.on("error", () => undefined);
  socket.end(`HTTP/1.1 ${status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`);
}

function foreignHost(request: Request): Response {
  const host = (request.headers.get("host") ?? "").slice(0, 253);
  const how = "set SANDKEEP_PUBLIC_URL or SANDKEEP_ALLOWED_HOSTS if it is";
  return json(
    { error: { code: "forbidden", message: `Cannot answer to "${host}": it is no name of this daemon; ${how}` } },
    403,
  );
}

/** for a person who opens the daemon's address in a browser */
function welcome(url: string): Response {
  const lines = [
    "This is Sandkeep, which runs sandboxes. Programs use it with an API key:",
    "",
    `    eval "$(sandkeep env vercel --url ${url})"`,
    "",
    '"sandkeep --help" says what else there is.',
  ];
  return new Response(`${lines.join("\n")}\n`, { headers: { "content-type": "text/plain; charset=utf-8" } });
}

function matching(pattern: RegExp): Mount["owns"] {
  return (path) => pattern.test(path);
}

function withoutKey(pattern: RegExp): Mount["owns"] {
  return (path, { headers }) => pattern.test(path) && (headers.has("authorization") || !headers.has("x-api-key"));
}
