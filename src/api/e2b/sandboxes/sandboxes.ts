/** Sandboxes on E2B's API: create, get, delete. */

import type { Hono } from "hono";
import type { z } from "zod";
import { isSandkeepError } from "../../../core/model/errors.ts";
import type { Owner } from "../../../core/model/sandbox.ts";
import { labelOf } from "../../../core/model/sandbox-label.ts";
import type { Booted, CreateSpec } from "../../../core/sandboxes/sandboxes.ts";
import { json, undoIfGone } from "../../kit/http.ts";
import { Refusal } from "../../kit/refusal.ts";
import { accessToken, trafficToken } from "../access/tokens.ts";
import { interpreterTemplate } from "../interpreter/interpreters.ts";
import { bodyOf, type Dialect, type Env, nothing, queryOf, sandboxOf } from "../request.ts";
import type { Schemas } from "../schemas.ts";
import { withSecrets } from "../secrets.ts";
import { imageOfTemplate } from "../template-image.ts";
import * as wire from "../wire.ts";
import { notesFor, policyOf } from "./network.ts";
import { isSnapshotId, snapshotCalled } from "./snapshots.ts";

/** paths of both generations of clients, with the default timeout in seconds */
const generations = { "/sandboxes": 15, "/v2/sandboxes": 300 };

export function sandboxRoutes(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas } = dialect;

  for (const [path, usual] of Object.entries(generations)) {
    app.post(path, async (c) => {
      queryOf(c, schemas.emptyQuery);
      const owner = c.get("owner");
      const body = await bodyOf(c, dialect, schemas.createBody);
      const spec = await specOf(dialect, owner, body, usual);
      const made = await core.sandboxes.create(owner, spec);
      // A client that gave up waiting creates another sandbox and never learns of this one.
      undoIfGone(c.req.raw, () => core.sandboxes.abandon(owner, made.sandbox.id), dialect.logError);
      if (body.templateID === interpreterTemplate) dialect.interpreters.ahead(owner, made);
      return json(wire.sandbox(made, accessTo(dialect, made, owner)), 201);
    });
  }

  app.get("/sandboxes/:id", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const booted = await sandboxOf(c, dialect);
    return json(wire.detail(booted, accessTo(dialect, booted, c.get("owner")), dialect.limits));
  });

  // Snapshots that clients requested have a name and stay. Those of pauses are deleted with their sandbox.
  app.delete("/sandboxes/:id", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const { sandbox } = await sandboxOf(c, dialect);
    await core.sandboxes.delete(c.get("owner"), sandbox.name, { orphanSnapshots: "unnamed" });
    dialect.issued.forget(labelOf(sandbox.id));
    return nothing();
  });
}

export function accessTo(dialect: Dialect, { sandbox }: Booted, owner: Owner): wire.Access {
  const label = labelOf(sandbox.id);
  const envdAccessToken = accessToken(dialect, label, owner);
  dialect.issued.add(label, envdAccessToken);
  return {
    envdAccessToken,
    trafficAccessToken: sandbox.ingress?.isPrivate ? trafficToken(dialect, label) : null,
    domain: new URL(dialect.domain()).host,
  };
}

type CreateBody = z.output<Schemas["createBody"]>;

async function specOf(dialect: Dialect, owner: Owner, body: CreateBody, usual: number): Promise<CreateSpec> {
  const { templateID, timeout = usual, metadata, envVars, autoPause = false, autoResume, volumeMounts } = body;
  const { autoPauseMemory = true } = body;
  const { network, allow_internet_access: internet } = body;
  const rules = await withSecrets(dialect, owner, network?.rules);
  const networkPolicy = policyOf({ ...network, rules }, internet);
  const mounts = volumeMounts && (await mountsOf(dialect, owner, volumeMounts));
  // Last, because it counts the use. A snapshot's id is no name; else a template goes before a snapshot of its name.
  const template = isSnapshotId(templateID)
    ? undefined
    : await dialect.core.templates.use(owner, templateID, { counts: true });
  const snapshot = template ? undefined : await snapshotCalled(dialect, owner, templateID);
  const isPrivate = network?.allowPublicTraffic === false;
  const host = network?.maskRequestHost;
  return {
    base: { image: template?.image ?? imageOfTemplate(templateID) },
    ...(snapshot && { source: { kind: "snapshot", snapshotId: snapshot.id } }),
    // A template's image has its own.
    ...(template
      ? { vcpus: template.build.vcpus, memory: template.build.memory }
      : { user: "user", cwd: "/home/user" }),
    timeout: timeout * 1000,
    // At its timeout, a sandbox keeps its files only if it pauses.
    persistent: autoPause,
    ...(autoPause && autoPauseMemory && { onTimeout: "pause" }),
    // The snapshot of each pause replaces the one before.
    keepLastSnapshots: { count: 1, deleteEvicted: true },
    networkPolicy,
    ingress: {
      anyPort: true,
      ...(isPrivate && { isPrivate }),
      ...(host !== undefined && { host }),
      ...(autoResume?.enabled && { wakes: true }),
    },
    notes: {
      e2b: {
        ...notesFor(network ?? undefined, internet),
        ...(!snapshot && { template: template?.template.name ?? templateID }),
      },
    },
    ...(metadata && { tags: metadata }),
    ...(envVars && { env: envVars }),
    ...(mounts && { mounts }),
  };
}

async function mountsOf(
  { core }: Dialect,
  owner: Owner,
  wanted: NonNullable<CreateBody["volumeMounts"]>,
): Promise<NonNullable<CreateSpec["mounts"]>> {
  const paths = wanted.map(({ path }) => path);
  const overlap = paths.some((one, i) => paths.some((other, j) => i !== j && `${other}/`.startsWith(`${one}/`)));
  if (overlap) throw new Refusal(400, "Cannot mount the volumes: their paths overlap");
  for (const { name } of wanted) {
    await core.drives.get(owner, name).catch((error: unknown) => {
      throw isSandkeepError(error, "not-found") ? new Refusal(404, `Volume "${name}" not found`) : error;
    });
  }
  return Object.fromEntries(wanted.map(({ name, path }) => [path, { drive: name, mode: "read-write" }]));
}
