/** Sandboxes on Vercel's wire: create, list, get and resume, change, delete, fork. */

import type { Hono } from "hono";
import type { z } from "zod";
import type { CommandDefaults } from "../../core/images/images.ts";
import type { Owner } from "../../core/model/sandbox.ts";
import type { Booted, CreateSpec, ForkSpec, UpdateSpec } from "../../core/sandboxes/sandboxes.ts";
import { json, undoIfGone } from "../kit/http.ts";
import { once } from "../kit/idempotency.ts";
import { badRequest, sandboxNotFound, worded } from "./errors.ts";
import { wantedImage } from "./image-names.ts";
import { policyFromWire } from "./network-policy.ts";
import {
  addressesFor,
  bodyOf,
  type Dialect,
  type Env,
  ownerOf,
  type Private,
  queryOf,
  type VercelContext,
  wantsSystemRoutes,
} from "./request.ts";
import { namePattern, type Schemas } from "./schemas.ts";
import * as wire from "./wire.ts";

export function sandboxRoutes(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas } = dialect;

  app.post("/:version{v[234]}/sandboxes", async (c) => {
    const { value: scope } = queryOf(c, schemas.scopeQuery);
    const sent = await bodyOf(c, dialect, schemas.createBody);
    const owner = await ownerOf(c, dialect, scope, sent.value.projectId);
    const spec = createSpec(c.req.param("version"), sent.value);
    return madeOnce(c, dialect, {
      owner,
      operation: "create",
      text: sent.text,
      isNamed: spec.name !== undefined,
      make: () => worded(core.sandboxes.create(owner, spec), takenName(spec.name)),
      print: (made) => booted(made, addressesFor(c, dialect), sent.private),
    });
  });

  app.get("/:version{v[234]}/sandboxes", async (c) => {
    const { value } = queryOf(c, schemas.sandboxesQuery);
    const owner = await ownerOf(c, dialect, value, value.project);
    const page = await core.sandboxes.listWithSessions(owner, {
      limit: value.limit,
      order: value.sortOrder,
      sortBy: value.sortBy === "statusUpdatedAt" ? "stateChangedAt" : value.sortBy,
      ...(value.cursor !== undefined && { cursor: value.cursor }),
      ...(value.namePrefix !== undefined && { namePrefix: value.namePrefix }),
      ...(value.status !== undefined && { states: wire.statesOf(value.status) }),
      ...(value.tags !== undefined && { tags: tagOf(value.tags) }),
    });
    const sandboxes = page.items.map(({ sandbox, session }) => wire.sandbox(sandbox, session));
    return json({ sandboxes, pagination: wire.pagination(page) });
  });

  app.get("/:version{v[234]}/sandboxes/:name", async (c) => {
    const { value, private: hidden } = queryOf(c, schemas.getQuery);
    const owner = await ownerOf(c, dialect, value, value.projectId);
    const name = nameOf(c);
    const found = value.resume
      ? await core.sandboxes.resume(owner, name)
      : { ...(await core.sandboxes.get(owner, name)), resumed: false };
    return json({ ...booted(found, addressesFor(c, dialect), hidden), resumed: found.resumed });
  });

  app.patch("/:version{v[234]}/sandboxes/:name", async (c) => {
    const { value } = queryOf(c, schemas.getQuery);
    const { value: changes } = await bodyOf(c, dialect, schemas.updateBody);
    const owner = await ownerOf(c, dialect, value, value.projectId);
    const name = nameOf(c);
    await core.sandboxes.update(owner, name, updateSpec(changes));
    // Clients replace everything they know with this answer, including the expiry.
    const { sandbox, session } = value.resume
      ? await core.sandboxes.resume(owner, name)
      : await core.sandboxes.get(owner, name);
    return json({
      sandbox: wire.sandbox(sandbox, session),
      routes: routesOf({ sandbox, session }, addressesFor(c, dialect)),
    });
  });

  app.delete("/:version{v[234]}/sandboxes/:name", async (c) => {
    const { value } = queryOf(c, schemas.deleteQuery);
    const owner = await ownerOf(c, dialect, value, value.projectId);
    const name = nameOf(c);
    const deleted = core.sandboxes.delete(owner, name, { orphanSnapshots: value.deleteOrphanSnapshots });
    return json({ sandbox: wire.sandbox(await deleted) });
  });

  app.post("/:version{v[234]}/sandboxes/:name/fork", async (c) => {
    const { value } = queryOf(c, schemas.sandboxQuery);
    const sent = await bodyOf(c, dialect, schemas.forkBody);
    const owner = await ownerOf(c, dialect, value, value.projectId);
    const origin = nameOf(c);
    const { image, ...changes } = sent.value;
    const spec = settings(changes);
    return madeOnce(c, dialect, {
      owner,
      operation: `fork ${origin}`,
      text: sent.text,
      isNamed: spec.name !== undefined,
      make: () => worded(core.sandboxes.fork(owner, origin, spec, image && wantedImage(image)), takenName(spec.name)),
      print: (made) => booted(made, addressesFor(c, dialect), sent.private),
    });
  });
}

/** the routes of a sandbox; `hidden` says whether the caller also asks for the platform's own */
export function routesOf({ sandbox, session }: Booted, addresses: wire.Addresses, hidden: Private = {}): object[] {
  const system = wantsSystemRoutes(hidden) ? [wire.systemRoute(session, addresses)] : [];
  return [...sandbox.routes.map((each) => wire.route(each, addresses)), ...system];
}

interface Making {
  owner: Owner;
  /** name of the operation, which identifies a repeat */
  operation: string;
  /** the body as received */
  text: string;
  isNamed: boolean;
  make(): Promise<Booted>;
  print(made: Booted): object;
}

/** the answer to a request that makes a sandbox; a repeat with the same idempotency key gets the same answer */
export async function madeOnce(c: VercelContext, dialect: Dialect, making: Making): Promise<Response> {
  const { owner, operation, text, isNamed, make, print } = making;
  const key = c.req.header("idempotency-key");
  const scope = `${owner.teamId} ${owner.projectId} ${operation}`;
  const request = { key, team: owner.teamId, scope, request: text };
  const answer = await once(dialect.idempotency, request, async () => {
    const made = await make();
    // Clients send a create again when its answer is lost. They could not find the first sandbox without a name, so it
    // is deleted. With an idempotency key they get its answer again, so it stays.
    if (!isNamed && key === undefined)
      undoIfGone(c.req.raw, () => dialect.core.sandboxes.abandon(owner, made.sandbox.id), dialect.logError);
    return print(made);
  });
  return json(answer);
}

/** versions 1 and 2 default to a runtime, later ones to an image */
export function createSpec(version: string, { source, runtime, image, projectId: _, ...rest }: CreateBody): CreateSpec {
  const isOfRuntimes = version === "v1" || version === "v2";
  const usual = isOfRuntimes && source?.type !== "snapshot" ? { runtime: "node24" } : {};
  const base = runtime === undefined && image === undefined ? usual : { runtime, image: image && wantedImage(image) };
  const home = isOfRuntimes || runtime !== undefined ? undefined : imageHome;
  return {
    ...settings(rest),
    base: { ...base, home },
    ...(source && { source: sourceOf(source, home !== undefined) }),
  };
}

/** user and directory of the hosted images; runtimes use those of our default image */
const imageHome: CommandDefaults = {
  user: "ubuntu",
  cwd: "/vercel",
  instead: { user: "vercel-sandbox", cwd: "/vercel/sandbox" },
};

function booted(made: Booted, addresses: wire.Addresses, hidden: Private): object {
  return {
    sandbox: wire.sandbox(made.sandbox, made.session),
    session: wire.session(made.session),
    routes: routesOf(made, addresses, hidden),
  };
}

/** with `inFolder`, a repository goes into a folder of its own name, as with `git clone` */
function sourceOf(source: NonNullable<CreateBody["source"]>, inFolder: boolean): NonNullable<CreateSpec["source"]> {
  const { type, ...rest } = source;
  const directory = type === "git" && inFolder ? { directory: repositoryName(source.url) } : {};
  return { kind: type, ...rest, ...directory } as NonNullable<CreateSpec["source"]>; // only `type` is renamed
}

function repositoryName(url: string): string {
  const last = new URL(url).pathname.split("/").findLast((part) => part !== "") ?? "";
  const name = last.replace(/\.git$/, "").replaceAll(/[^A-Za-z0-9._-]/g, "-");
  return /^[.-]*$/.test(name) ? "repository" : name.replace(/^-+/, "");
}

function updateSpec({ networkId, keepLastSnapshots, currentSnapshotId, runtime, ...rest }: UpdateBody): UpdateSpec {
  const { name: _, ...plain } = settings(rest);
  return {
    ...plain,
    ...(networkId !== undefined && { networkId }),
    ...(keepLastSnapshots !== undefined && { keepLastSnapshots: keepLastSnapshots && keepLast(keepLastSnapshots) }),
    ...(currentSnapshotId !== undefined && { currentSnapshotId }),
    ...(runtime !== undefined && { runtime }),
  };
}

/** leaves out members that were not sent, since undefined would mean something in an update */
function settings({ resources, networkPolicy, keepLastSnapshots, mounts, ...plain }: ForkBody): ForkSpec {
  return {
    ...Object.fromEntries(Object.entries(plain).filter(([, value]) => value !== undefined)),
    ...(resources && { vcpus: resources.vcpus }),
    ...(networkPolicy && { networkPolicy: policyFromWire(networkPolicy) }),
    ...(keepLastSnapshots && { keepLastSnapshots: keepLast(keepLastSnapshots) }),
    ...(mounts && {
      mounts: Object.fromEntries(Object.entries(mounts).map(([path, mount]) => [path, mountOf(mount)])),
    }),
  };
}

type CreateBody = z.output<Schemas["createBody"]>;
type UpdateBody = z.output<Schemas["updateBody"]>;
type ForkBody = z.output<Schemas["forkBody"]>;

function keepLast({ count, expiration, deleteEvicted }: NonNullable<ForkBody["keepLastSnapshots"]>) {
  return { count, deleteEvicted, ...(expiration !== undefined && { expiration }) };
}

function mountOf({ drive, mode }: { drive: string; mode: "read-write" | "snapshot" | "read-only" }) {
  return { drive, mode: mode === "read-write" ? mode : ("snapshot" as const) };
}

function tagOf(filter: string): Record<string, string> {
  const colon = filter.indexOf(":");
  return { [filter.slice(0, colon)]: filter.slice(colon + 1) };
}

/** the name in the path; an invalid name is not found */
function nameOf(c: VercelContext): string {
  const name = c.req.param("name") ?? "";
  if (!namePattern.test(name) || name.length > 128) throw sandboxNotFound(name);
  return name;
}

function takenName(name: string | undefined) {
  const words =
    `A sandbox with the name '${name}' already exists for this project. ` +
    "Use GET /sandboxes/:name to resume it or delete it first.";
  return { "exists sandbox": () => badRequest(words) };
}
