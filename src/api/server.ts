/**
 * The dialects that this daemon speaks, in one table: which of them answers a request. What is true of all of them is
 * here: who may address the daemon, what browsers may do, and when it is worth asking again.
 */

import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { clients } from "./default-dialect.ts";
import { createE2b } from "./e2b/e2b.ts";
import { createInstavm } from "./instavm/instavm.ts";
import { forBrowsers, preflight } from "./kit/browsers.ts";
import type { ApiDialect, PortNames, Service, ServiceLimits } from "./kit/dialect.ts";
import { isOwnHost } from "./kit/hosts.ts";
import { type Connection, json } from "./kit/http.ts";
import { MountTable } from "./kit/mount-table.ts";
import { createMcp } from "./mcp/mcp.ts";
import { createSandkeep } from "./sandkeep/sandkeep.ts";
import { createVercel } from "./vercel/vercel.ts";
import { createVeryfront } from "./veryfront/veryfront.ts";

export interface ApiOptions extends Omit<Service, "limits" | "closing" | "conformanceFixtures"> {
  limits: Omit<ServiceLimits, "body" | "patience"> & Partial<ServiceLimits>;
  /** default no */
  closing?: Service["closing"];
  conformanceFixtures?: boolean;
  /** what the tokens of forwarded requests are checked with: a JSON Web Key Set */
  jwks?: () => object;
  /** further names that this daemon is reached by */
  allowedHosts?: string[];
}

export interface Api {
  /** Node's server hands the connection along; without one, a body that breaks off ends in an error */
  fetch(request: Request, connection?: Connection): Promise<Response>;
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** whether a dialect serves the host that a request names, which is then not that of a sandbox's port */
  servesHost(header: string | undefined): boolean;
  /** how clients name ports of sandboxes in headers */
  ports: PortNames | undefined;
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
  const dialects: ApiDialect[] = [
    // First, as what is meant for a sandbox says so in a header, whatever its path.
    createE2b(service),
    entrance(options),
    createSandkeep(service),
    createInstavm(service),
    createVeryfront(service),
    createMcp(service),
    // Last, as it also has the paths of a version that no other dialect has.
    createVercel(service, options.jwks ?? (() => ({ keys: [] }))),
  ];
  const table = new MountTable(dialects);
  const isOwn = (host: string | null | undefined) => {
    const own = [options.publicUrl(), options.domain()].map((url) => new URL(url).hostname);
    return isOwnHost(host, [...own, ...(options.allowedHosts ?? [])]) || table.servesHost(host);
  };

  return {
    async fetch(request, connection) {
      const mount = table.find(request);
      // Whoever looks whether a server lives may call it what they like.
      const isHealth = new URL(request.url).pathname === "/health";
      if (!isHealth && !isOwn(request.headers.get("host"))) return foreignHost(request);
      if (!mount) return json({ error: { code: "not_found", message: "Not found." } }, 404);
      if (!mount.forPages) return withRetryAfter(await mount.app.fetch(request, connection));
      return preflight(request) ?? forBrowsers(withRetryAfter(await mount.app.fetch(request, connection)));
    },
    upgrade(request, socket, head) {
      if (!isOwn(request.headers.host)) return refuse(socket, "403 Forbidden");
      if (dialects.some((dialect) => dialect.upgrade?.(request, socket, head))) return;
      refuse(socket, "404 Not Found");
    },
    servesHost: (header) => table.servesHost(header),
    ports: dialects.find(({ ports }) => ports)?.ports,
  };
}

/** what anybody may ask, in any dialect: whether it lives, and what it is */
function entrance({ domain, publicUrl }: ApiOptions): ApiDialect {
  return {
    mounts: [
      { path: /^\/health$/, app: { fetch: () => json({ status: "ok", domain: new URL(domain()).hostname }) } },
      { path: /^\/$/, methods: ["GET", "HEAD"], app: { fetch: () => welcome(publicUrl()) } },
    ],
  };
}

/** whoever is told that the daemon cannot answer now is told when to ask again, in seconds */
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
    { error: { code: "forbidden", message: `Cannot answer to "${host}": it is no name of this daemon; ${how}` } },
    403,
  );
}

/** for a person who opens the daemon's address in a browser */
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
