/**
 * Our own API below /sandkeep/v1: everything that the core can do, for the command line, the dashboard and operators.
 * Each operation is declared once (frame/operation.ts). Every request needs a key or the session of a browser, except for
 * the document that describes the API.
 */

import { type Context, Hono } from "hono";
import type { Caller } from "../../core/model/sandbox.ts";
import { authenticate, requireRead } from "../kit/authentication.ts";
import { BrowserSessions, senderOf } from "../kit/browser/browser-sessions.ts";
import type { ApiDialect, Service } from "../kit/dialect.ts";
import { abortWhenEnded, type Connection, json } from "../kit/http.ts";
import { errorResponse, nothingHere } from "./errors.ts";
import { ownExamples } from "./examples.ts";
import { type OpenApi, openApi } from "./frame/openapi.ts";
import { referencePage } from "./frame/reference-page.ts";
import { serve } from "./frame/router.ts";
import { metricsApi } from "./metrics.ts";
import { activityOperations } from "./operations/activity.ts";
import { auditOperations } from "./operations/audit.ts";
import { commandOperations } from "./operations/commands.ts";
import { driveOperations } from "./operations/drives.ts";
import { egressOperations } from "./operations/egress.ts";
import { eventOperations } from "./operations/events.ts";
import { fileOperations } from "./operations/files.ts";
import { hostOperations } from "./operations/host.ts";
import { imagePullOperations } from "./operations/image-pulls.ts";
import { imageOperations } from "./operations/images.ts";
import { keyOperations } from "./operations/keys.ts";
import { networkOperations } from "./operations/network.ts";
import { quotaOperations } from "./operations/quotas.ts";
import { runOperations } from "./operations/runs.ts";
import { sandboxOperations } from "./operations/sandboxes.ts";
import { sessionOperations } from "./operations/sessions.ts";
import { snapshotOperations } from "./operations/snapshots.ts";
import { tapeOperations } from "./operations/tape.ts";
import { teamOperations } from "./operations/teams.ts";
import { webhookOperations } from "./operations/webhooks.ts";
import { Terminals } from "./terminals.ts";

/** What the operations get from the daemon. */
export type Dialect = Pick<
  Service,
  "core" | "logError" | "limits" | "idempotency" | "domain" | "ending" | "sign" | "signOuts" | "clock" | "publicUrl"
>;

export type Env = { Variables: { caller: Caller }; Bindings: Connection };
export type SandkeepContext = Context<Env>;

const version = "1";

export function createSandkeep(service: Service): ApiDialect {
  const terminals = new Terminals(service);
  let api: Hono<Env> | undefined;
  // Its many schemas take a moment, which a daemon that only speaks other dialects does not need.
  const whenAsked = {
    fetch(request: Request, connection?: Connection) {
      api ??= sandkeepApi(service);
      return api.fetch(request, connection);
    },
  };
  return {
    wire: "sandkeep",
    examples: ownExamples,
    mounts: [
      { path: /^\/metrics$/, app: metricsApi(service) },
      { path: /^\/sandkeep\/v1(\/|$)/, app: whenAsked, forPages: true },
    ],
    upgrade: (request, socket, head) => terminals.upgrade(request, socket, head),
  };
}

export function sandkeepApi(dialect: Dialect): Hono<Env> {
  const { core, logError } = dialect;
  const app = new Hono<Env>().basePath("/sandkeep/v1");
  app.onError((error) => errorResponse(error, logError));
  app.notFound(() => errorResponse(nothingHere(), logError));
  const sessions = new BrowserSessions(dialect);
  const operations = operationsOf(dialect);
  let document: OpenApi | undefined;
  const described = () => {
    document ??= openApi(operations, version);
    return document;
  };
  app.get("/openapi.json", () => json(described()));
  app.get("/reference", () => referencePage(described()));
  app.use(async (c, next) => {
    const sender = senderOf(c.req.raw);
    if (sessions.isUsedBy(sender)) {
      const caller = await sessions.authenticate(sender);
      abortWhenEnded(c.req.raw, caller.ended);
      requireRead(caller, c.req);
      c.set("caller", caller);
    } else {
      c.set("caller", await authenticate(core, c.req));
    }
    await next();
  });
  serve(app, dialect, operations);
  return app;
}

/** every operation, in the order of the document */
export function operationsOf(dialect: Dialect) {
  return [
    ...sandboxOperations(dialect),
    ...activityOperations(dialect),
    ...tapeOperations(dialect),
    ...sessionOperations(dialect),
    ...commandOperations(dialect),
    ...runOperations(dialect),
    ...fileOperations(dialect),
    ...networkOperations(dialect),
    ...egressOperations(dialect),
    ...snapshotOperations(dialect),
    ...imageOperations(dialect),
    ...imagePullOperations(dialect),
    ...driveOperations(dialect),
    ...eventOperations(dialect),
    ...webhookOperations(dialect),
    ...teamOperations(dialect),
    ...keyOperations(dialect),
    ...quotaOperations(dialect),
    ...auditOperations(dialect),
    ...hostOperations(dialect),
  ];
}

/** The types of all operations, for the client. */
export type DeclaredOperation = ReturnType<typeof operationsOf>[number];
