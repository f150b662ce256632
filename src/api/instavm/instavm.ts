/** InstaVM's dialect: registers its routes, and says which paths it serves. */

import type { Hono } from "hono";
import type { ApiDialect, Service } from "../kit/dialect.ts";
import { egressRoutes } from "./egress.ts";
import { instavmExamples } from "./examples.ts";
import { executionRoutes } from "./executions.ts";
import { fileRoutes } from "./files.ts";
import { keyRoutes } from "./keys.ts";
import { missingRoutes } from "./missing.ts";
import { Ptys, ptyRoutes } from "./pty.ts";
import { type Dialect, type Env, router } from "./request.ts";
import { schemas } from "./schemas.ts";
import { sessionRoutes } from "./sessions.ts";
import { shareRoutes } from "./shares.ts";
import { snapshotRoutes } from "./snapshots.ts";
import { vmRoutes } from "./vms.ts";
import { volumeRoutes } from "./volumes.ts";

const nouns =
  "sessions|vms|executions|snapshots|egress|volumes|shares|api-keys|custom-domains|ssh-keys|audit|webhooks|browser|computeruse";

const paths = new RegExp(`^/((execute|execute_async|kill|upload|download)/?$|v1/(${nouns})(/|$))`);

export function createInstavm(service: Service): ApiDialect {
  const { vcpus, timeout: lifetime, ports, driveSize: volume } = service.limits;
  const limits = { vcpus, lifetime, ports, volume };
  const dialect: Dialect = { ...service, limits, schemas: schemas(limits) };
  const terminals = new Ptys(dialect);
  return {
    wire: "instavm",
    examples: instavmExamples,
    mounts: [{ path: paths, app: instavmApi(dialect, terminals), forPages: true }],
    upgrade: (request, socket, head) => terminals.upgrade(request, socket, head),
  };
}

export function instavmApi(dialect: Dialect, ptys: Ptys): Hono<Env> {
  const app = router(dialect);
  sessionRoutes(app, dialect);
  executionRoutes(app, dialect);
  fileRoutes(app, dialect);
  vmRoutes(app, dialect);
  snapshotRoutes(app, dialect);
  egressRoutes(app, dialect);
  volumeRoutes(app, dialect);
  shareRoutes(app, dialect);
  keyRoutes(app, dialect);
  ptyRoutes(app, dialect, ptys);
  missingRoutes(app);
  return app;
}
