/**
 * envd: the service that E2B's clients expect inside a sandbox on port 49983. The daemon serves it with the core; no
 * program inside the sandbox does. A request names its sandbox in one of two ways:
 *
 *   headers     E2b-Sandbox-Id and E2b-Sandbox-Port, at the daemon's own address
 *   host name   49983-<id>.<domain>
 *
 * Every request except /health carries the sandbox's access token; for /files a signed URL is enough. A sandbox that
 * does not run always answers with 502, by which clients recognize that it is gone.
 */

import { isSandkeepError } from "../../../core/model/errors.ts";
import type { Owner } from "../../../core/model/sandbox.ts";
import { idOfLabel } from "../../../core/model/sandbox-label.ts";
import type { Booted } from "../../../core/sandboxes/sandboxes.ts";
import type { Mount } from "../../kit/dialect.ts";
import { hostnameOf } from "../../kit/hosts.ts";
import { abortWhenEnded, type Connection, json } from "../../kit/http.ts";
import { Refusal } from "../../kit/refusal.ts";
import { ownerOfToken } from "../access/tokens.ts";
import { errorResponse } from "../errors.ts";
import type { Dialect } from "../request.ts";
import { awake } from "../sandboxes/awake.ts";
import { type EnvdCall, userOf } from "./call.ts";
import { ConnectError, errorAnswer } from "./connect.ts";
import { filesystemMethods } from "./filesystem.ts";
import { type Method, processMethods } from "./processes.ts";
import { type Signer, signerOf } from "./signature.ts";
import { compose, download, upload } from "./transfers.ts";

/** the port on which clients expect envd */
export const envdPort = 49_983;

const hosts = new RegExp(`^${envdPort}-(i[0-9a-z]+)(?:-[0-9a-z-]+)?\\.`);

export function envdMounts(dialect: Dialect): Mount[] {
  const app = { fetch: envd(dialect) };
  return [
    { path: /^\//, host: hosts, app, forPages: true },
    { path: /^\//, headers: (headers) => headers.has(idHeader), app, forPages: true },
    // Where one address serves all sandboxes, signed URLs name no sandbox.
    { path: /^\/files$/, app, forPages: true },
  ];
}

const idHeader = "e2b-sandbox-id";

type Route = (call: EnvdCall, connection: Connection | undefined) => Response | Promise<Response>;

function envd(dialect: Dialect): Mount["app"]["fetch"] {
  const { core, logError, issued } = dialect;
  const methods = methodsOf(dialect);
  const routes: Record<string, Route> = {
    "GET /files": (call, connection) => download(dialect, call, connection),
    "HEAD /files": (call, connection) => download(dialect, call, connection),
    "POST /files": (call) => upload(dialect, call),
    "POST /files/compose": (call) => compose(dialect, call),
    "GET /metrics": (call) => metrics(dialect, call),
    "GET /envs": async ({ owner, session }) => json(await core.sessions.environment(owner, session.id)),
  };

  return async (request, connection) => {
    const named = idOf(request);
    try {
      return await answer(request, named, connection);
    } catch (error) {
      if (isSandkeepError(error, "unauthenticated") || (error instanceof Refusal && error.status === 401)) {
        // For a sandbox that does not run, answer 502 instead of judging the token.
        if (named !== undefined && !(await isRunning(named))) return notRunning(named);
        return errorResponse(new Refusal(401, error.message, { cause: error }), logError);
      }
      if (error instanceof ConnectError) return errorAnswer(error, { logError });
      const isOver = isSandkeepError(error, "gone") || isSandkeepError(error, "conflict", "session");
      return isOver ? notRunning(named ?? "") : errorResponse(error, logError);
    }
  };

  async function answer(request: Request, named: string | undefined, connection?: Connection): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (pathname === "/health" && named !== undefined) {
      return (await isRunning(named)) ? new Response(null, { status: 204 }) : notRunning(named);
    }
    const { sandboxId, token } = credentialOf(request, named);
    const owner = await ownerOfToken(dialect, sandboxId, token);
    issued.add(sandboxId, token);
    abortWhenEnded(request, owner.ended);
    const there = await sandboxOf(owner, sandboxId);
    if (!there) return notRunning(sandboxId);
    const call: EnvdCall = { request, sandboxId, ...there, owner, user: undefined };
    const route = routes[`${request.method} ${pathname}`];
    if (route) return route(call, connection);
    const method = methods.get(pathname);
    if (!method) throw new Refusal(404, "There is nothing at this address");
    if (request.method !== "POST") throw new Refusal(405, "This address accepts only POST");
    return method({ ...call, user: userOf(request) });
  }

  /** the token of the request or, for files, the one that its URL was signed with */
  function credentialOf(request: Request, named: string | undefined): Signer {
    const token = request.headers.get("x-access-token");
    if (token !== null && named !== undefined) return { sandboxId: named, token };
    const signer = signerOf(request, { issued, now: dialect.clock(), sandboxId: named });
    if (signer) return signer;
    throw new Refusal(401, "Cannot use the sandbox: there is no access token");
  }

  async function isRunning(label: string): Promise<boolean> {
    const sandboxId = idOfLabel(label);
    return sandboxId !== undefined && core.routes.isRunning(sandboxId);
  }

  async function sandboxOf(owner: Owner, label: string): Promise<Booted | undefined> {
    try {
      return await awake(dialect, owner, label);
    } catch (error) {
      if (isSandkeepError(error, "not-found")) issued.forget(label);
      if (isSandkeepError(error, "not-found") || isSandkeepError(error, "forbidden", "sandbox")) return undefined;
      throw error;
    }
  }
}

/** the sandbox's current use of resources */
async function metrics({ core, clock, limits }: Dialect, { owner, session }: EnvdCall): Promise<Response> {
  const { processors, memory, cache = 0, disk = 0 } = await core.sessions.load(owner, session.id);
  const [used, total] = [Math.max(0, memory - cache), session.memory * 2 ** 20];
  return json({
    ts: Math.floor(clock() / 1000),
    cpu_count: session.vcpus,
    cpu_used_pct: Math.round(processors * 10_000) / 100,
    mem_total: total,
    mem_used: used,
    mem_cache: cache,
    mem_total_mib: session.memory,
    mem_used_mib: Math.round(used / 2 ** 20),
    disk_used: disk,
    disk_total: limits.disk,
  });
}

/** the methods of both services by path */
function methodsOf(dialect: Dialect): Map<string, Method> {
  const services = {
    "process.Process": processMethods(dialect),
    "filesystem.Filesystem": filesystemMethods(dialect),
  };
  return new Map(
    Object.entries(services).flatMap(([service, methods]) => {
      return Object.entries(methods).map(([name, method]) => [`/${service}/${name}`, method] as const);
    }),
  );
}

/** the sandbox that a request names; ids of an older form end in a dash and a client id */
function idOf({ headers }: Request): string | undefined {
  const [, host] = hosts.exec(hostnameOf(headers.get("host") ?? "") ?? "") ?? [];
  return host ?? headers.get(idHeader)?.split("-")[0];
}

function notRunning(sandboxId: string): Response {
  return json({ sandboxId: sandboxId.slice(0, 64), message: "The sandbox was not found", code: 502 }, 502);
}
