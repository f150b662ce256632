/**
 * Joins all dialects into one API and picks the one that answers a request. It also does what applies to all of them:
 * it checks the host name, and adds the headers for browsers and `retry-after`.
 */

import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { remembered } from "../base/remembered.ts";
import type { Caller } from "../core/model/sandbox.ts";
import type { DashboardFiles } from "./dashboard/assets.ts";
import { createDashboard } from "./dashboard/dashboard.ts";
import { clients } from "./default-dialect.ts";
import { createE2b } from "./e2b/e2b.ts";
import { createInstavm } from "./instavm/instavm.ts";
import { forBrowsers, preflight } from "./kit/browser/browsers.ts";
import type { ApiDialect, ExamplePlace, PortNames, Service, ServiceLimits } from "./kit/dialect.ts";
import { isOwnHost } from "./kit/hosts.ts";
import { type Connection, json } from "./kit/http.ts";
import { MountTable } from "./kit/routing/mount-table.ts";
import { createMcp } from "./mcp/mcp.ts";
import { createSandkeep } from "./sandkeep/sandkeep.ts";
import { createVercel } from "./vercel/vercel.ts";
import { createVeryfront } from "./veryfront/veryfront.ts";

export interface ApiOptions extends Omit<Service, "limits" | "closing" | "conformanceFixtures"> {
  limits: Omit<ServiceLimits, "body" | "patience"> & Partial<ServiceLimits>;
  /** default no */
  closing?: Service["closing"];
  conformanceFixtures?: boolean;
  /** the JSON Web Key Set for verifying the tokens of forwarded requests */
  jwks?: () => object;
  /** the dashboard's files; without them there is no dashboard */
  dashboard?: DashboardFiles;
  /** further host names of this daemon */
  allowedHosts?: string[];
}

export interface Api {
  /** Node's server passes the connection; without one, a body that breaks off ends in an error */
  fetch(request: Request, connection?: Connection): Promise<Response>;
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** whether a dialect serves the host in this header itself, so that it does not lead to a sandbox's port */
  servesHost(header: string | undefined): boolean;
  /** how clients name ports of sandboxes in headers */
  ports: PortNames | undefined;
  /** an address that signs a browser in once, within `lifetime` ms; undefined without a dashboard */
  signInLink(caller: Caller, lifetime: number): string | undefined;
}

const ownLimits = { body: 4 * 2 ** 20, patience: 15_000 };

export function createApi(options: ApiOptions): Api {
  const service: Service = {
    closing: () => false,
    conformanceFixtures: false,
    ...options,
    publicUrl: () => options.publicUrl().replace(/\/$/, ""),
    limits: { ...ownLimits, ...options.limits },
  };
  const examples = (at: ExamplePlace) => dialects.flatMap((dialect) => dialect.examples?.(at) ?? []);
  const dashboard = options.dashboard && createDashboard(service, options.dashboard, examples);
  const dialects: ApiDialect[] = [
    // First, because requests to a sandbox say so in a header, whatever their path.
    createE2b(service),
    ...(dashboard ? [dashboard] : []),
    entrance(options),
    createSandkeep(service),
    createInstavm(service),
    createVeryfront(service),
    createMcp(service),
    // Last, because it also serves every versioned path that no other dialect has.
    createVercel(service, options.jwks ?? (() => ({ keys: [] }))),
  ];
  const table = new MountTable(dialects);
  const isOwn = (host: string | null | undefined) => {
    const own = () => [options.publicUrl(), options.domain()].map(hostOf);
    return isOwnHost(host, () => [...own(), ...(options.allowedHosts ?? [])]) || table.servesHost(host);
  };

  return {
    async fetch(request, connection) {
      const path = pathOf(request.url);
      const mount = table.find(request, path);
      // Health checks may use any host name.
      const isHealth = path === "/health";
      if (!isHealth && !isOwn(request.headers.get("host"))) return foreignHost(request);
      if (!mount) return json({ error: { code: "not_found", message: "Not found." } }, 404);
      service.speaks?.(mount.wire);
      if (!mount.forPages) return withRetryAfter(await mount.app.fetch(request, connection));
      return preflight(request) ?? forBrowsers(withRetryAfter(await mount.app.fetch(request, connection)));
    },
    upgrade(request, socket, head) {
      if (!isOwn(request.headers.host)) return refuse(socket, "403 Forbidden");
      // Dialects read the path with URL, which throws at some, such as "//".
      if (!URL.canParse(request.url ?? "/", "http://localhost")) return refuse(socket, "400 Bad Request");
      const upgrades = (dialect: ApiDialect) => {
        service.speaks?.(dialect.wire);
        return dialect.upgrade?.(request, socket, head) ?? false;
      };
      try {
        if (!dialects.some(upgrades)) refuse(socket, "404 Not Found");
      } catch (error) {
        // Node has no caller for this to reach: the whole daemon would fail.
        service.logError(error);
        refuse(socket, "500 Internal Server Error");
      }
    },
    servesHost: (header) => table.servesHost(header),
    ports: dialects.find(({ ports }) => ports)?.ports,
    signInLink: (caller, lifetime) => dashboard?.signInLink(caller, lifetime),
  };
}

const hostOf = remembered((url: string) => new URL(url).hostname);

/** the path of a request's URL, which the request has normalized: parsing it again would take longer than most searches */
function pathOf(url: string): string {
  const start = url.indexOf("/", url.indexOf("://") + 3);
  if (start < 0) return "/";
  const path = url.slice(start);
  const end = path.search(/[?#]/);
  return end < 0 ? path : path.slice(0, end);
}

/** routes without authentication, for every dialect: a health check and a welcome page */
function entrance({ domain, publicUrl }: ApiOptions): ApiDialect {
  return {
    wire: "none",
    mounts: [
      { path: /^\/health$/, app: { fetch: () => json({ status: "ok", domain: hostOf(domain()) }) } },
      { path: /^\/$/, methods: ["GET", "HEAD"], app: { fetch: () => welcome(publicUrl()) } },
    ],
  };
}

/** adds `retry-after`, in seconds, to an answer of 503 that lacks it */
function withRetryAfter(response: Response): Response {
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
    { error: { code: "forbidden", message: `Cannot answer to "${host}": it is not a name of this daemon; ${how}` } },
    403,
  );
}

/** the text for a person who opens the daemon's address in a browser */
function welcome(url: string): Response {
  const lines = [
    "This is Sandkeep, which runs sandboxes. Programs use it with an API key:",
    "",
    `    eval "$(sandkeep env ${clients.service} --url ${url})"`,
    "",
    '"sandkeep --help" says what else there is.',
  ];
  return new Response(`${lines.join("\n")}\n`, { headers: { "content-type": "text/plain; charset=utf-8" } });
}
