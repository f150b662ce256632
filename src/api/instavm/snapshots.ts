/**
 * Snapshots on InstaVM's wire. A build boots an image that this host has, runs the build's steps, and takes a snapshot.
 * The request is answered when that is done.
 */

import type { Hono } from "hono";
import type { z } from "zod";
import { type WantedImage, wantedImage } from "../../core/images/images.ts";
import type { Owner, Snapshot } from "../../core/model/sandbox.ts";
import { json } from "../kit/http.ts";
import { Refusal } from "../kit/refusal.ts";
import { notOffered } from "./errors.ts";
import { bodyOf, type Dialect, type Env, idOf, orNotFound, ownerOf, queryOf } from "./request.ts";
import type { Schemas } from "./schemas.ts";
import * as wire from "./wire.ts";

export function snapshotRoutes(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas } = dialect;

  app.post("/v1/snapshots", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const body = await bodyOf(c, schemas.imageBody);
    if (body.type === "system") throw notOffered("a snapshot of the system is");
    return json(wire.snapshot(await build(dialect, ownerOf(c), body)));
  });

  app.get("/v1/snapshots", async (c) => {
    const { type, limit } = queryOf(c, schemas.snapshotsQuery);
    if (type === "system") return json([]);
    const { items } = await core.snapshots.list(ownerOf(c), { limit, order: "desc", there: true });
    return json(items.map(wire.snapshot));
  });

  app.get("/v1/snapshots/:id", async (c) => {
    queryOf(c, schemas.emptyQuery);
    return json(wire.snapshot(await found(ownerOf(c), idOf(c, "Snapshot"))));
  });

  app.delete("/v1/snapshots/:id", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const owner = ownerOf(c);
    const { id } = await found(owner, idOf(c, "Snapshot"));
    await core.snapshots.delete(owner, id);
    return json({ message: "Snapshot deleted", snapshot_id: id });
  });

  /** the snapshot; on this wire a deleted one is not found */
  async function found(owner: Owner, id: string): Promise<Snapshot> {
    const snapshot = await orNotFound(core.snapshots.get(owner, id), "Snapshot");
    if (snapshot.state === "deleted") throw new Refusal(404, "Snapshot not found: it was deleted");
    return snapshot;
  }
}

type ImageBody = z.output<Schemas["imageBody"]>;

/** the wire's name for the default image means that image, unless another was imported under the name */
function imageCalled(name: string): WantedImage {
  return { ...wantedImage(name), ...(name === wire.defaultImageName && { otherwise: "the-default" }) };
}

const buildTime = 30 * 60_000;
const longestComplaint = 2000;

/** builds in a temporary sandbox, which is deleted afterwards */
async function build(dialect: Dialect, owner: Owner, body: ImageBody): Promise<Snapshot> {
  const { sandboxes, sessions } = dialect.core;
  const { sandbox, session } = await sandboxes.create(owner, {
    base: { image: imageCalled(body.oci_image) },
    user: "root",
    persistent: false,
    vcpus: body.vcpu_count,
    memory: body.memory_mb,
    timeout: Math.min(buildTime, dialect.limits.lifetime),
    env: body.build_args?.envs ?? {},
    tags: { purpose: "snapshot build" },
  });
  try {
    for (const script of steps(body.build_args ?? {})) await step(dialect, owner, session.id, script);
    const options = { name: body.name ?? undefined, expiration: 0 };
    return (await sessions.checkpoint(owner, session.id, options)).snapshot;
  } finally {
    await sandboxes.delete(owner, sandbox.name);
  }
}

interface Script {
  what: string;
  /** arguments of the shell, never part of its script */
  args: string[];
  text: string;
}

function steps(args: NonNullable<ImageBody["build_args"]>): Script[] {
  const words = (list: string | null | undefined) => (list ?? "").split(/[\s,]+/).filter((word) => word !== "");
  const install = (what: string, list: string | null | undefined, text: string): Script[] =>
    words(list).length > 0 ? [{ what, args: words(list), text }] : [];
  const branch = args.git_clone_branch == null ? [] : ["--branch", args.git_clone_branch];
  return [
    ...install("apt packages", args.extra_apt_packages, 'apt-get update && apt-get install -y -- "$@"'),
    ...install("pip packages", args.extra_pip_packages, 'python3 -m pip install --break-system-packages -- "$@"'),
    ...install("npm packages", args.extra_npm_packages, 'npm install -g -- "$@"'),
    ...(args.git_clone_url == null
      ? []
      : [{ what: "the repository", args: [...branch, "--", args.git_clone_url], text: 'git clone "$@" /app/repo' }]),
    ...(args.post_build_cmd == null || args.post_build_cmd === ""
      ? []
      : [{ what: "post_build_cmd", args: [], text: args.post_build_cmd }]),
  ];
}

async function step({ core }: Dialect, owner: Owner, sessionId: string, { what, args, text }: Script): Promise<void> {
  const { id } = await core.commands.run(owner, sessionId, { name: "sh", args: ["-c", text, "sh", ...args] });
  const { exitCode } = await core.commands.wait(owner, sessionId, id);
  if (exitCode === 0) return;
  let said = "";
  for await (const { data } of await core.commands.output(owner, sessionId, id, { follow: false })) {
    said = (said + Buffer.from(data).toString()).slice(-longestComplaint);
  }
  throw new Refusal(400, `Cannot build the snapshot: ${what} ended with code ${exitCode}: ${said.trim()}`);
}
