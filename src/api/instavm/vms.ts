/**
 * Machines on InstaVM's wire: create, list, change, kill, clone, suspend, resume and snapshot. A machine is one session
 * of a sandbox. The id of a suspended machine leads to the machine that later resumed its files.
 */

import type { Hono } from "hono";
import type { z } from "zod";
import { SandkeepError } from "../../core/model/errors.ts";
import type { Owner } from "../../core/model/sandbox.ts";
import type { WantedMount } from "../../core/sandboxes/sandboxes.ts";
import { isAsleep, isOver } from "../../core/sessions/states.ts";
import { json } from "../kit/http.ts";
import { Refusal } from "../kit/refusal.ts";
import { policyOf } from "./egress.ts";
import { notFound, notOffered } from "./errors.ts";
import { bodyOf, type Dialect, type Env, orNotFound, ownerOf, queryOf, sessionOf, type Vm, vmOf } from "./request.ts";
import type { Schemas } from "./schemas.ts";
import { machineSpec } from "./sessions.ts";
import * as wire from "./wire.ts";

export function vmRoutes(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas } = dialect;
  const answer = (vm: Vm, status = 200) => json(wire.vm(vm, dialect.domain()), status);

  app.post("/v1/vms", async (c) => {
    queryOf(c, schemas.waitQuery);
    const body = await bodyOf(c, schemas.vmBody);
    const owner = ownerOf(c);
    if (body.custom_domain) throw notOffered("a custom domain is");
    const spec = await vmSpec(dialect, owner, body);
    if (body.session_id != null) return answer(await again(dialect, owner, body.session_id, spec));
    const made = await orNotFound(core.sandboxes.create(owner, spec), "Snapshot");
    if (body.share && !body.share.is_public) {
      await core.routes.expose(owner, made.sandbox.name, body.share.port, { most: dialect.limits.ports, closed: true });
    }
    return answer(await vmOf(dialect, owner, made.session.id));
  });

  app.get("/v1/vms", async (c) => {
    const { metadata, limit } = queryOf(c, schemas.sandboxesQuery);
    const query = { limit, order: "desc" as const, ...(metadata && { contains: metadata }) };
    const { items } = await core.sessions.listWithSandboxes(ownerOf(c), query);
    return json(items.map((vm) => wire.vm(vm, dialect.domain())));
  });

  app.get("/v1/vms/:id", async (c) => {
    queryOf(c, schemas.emptyQuery);
    return answer(await vmOf(dialect, ownerOf(c), c.req.param("id")));
  });

  app.patch("/v1/vms/:id", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const { vm_lifetime_seconds: seconds, metadata } = await bodyOf(c, schemas.vmChanges);
    const owner = ownerOf(c);
    const { session, sandbox } = await vmOf(dialect, owner, c.req.param("id"));
    const timeout = seconds === undefined ? undefined : seconds * 1000;
    if (timeout !== undefined && !isAsleep(session.state)) await core.sessions.setTimeout(owner, session.id, timeout);
    const changes = { ...(metadata && { tags: metadata }), ...(timeout !== undefined && { timeout }) };
    await orNotFound(core.sandboxes.update(owner, sandbox.name, changes), "VM");
    return answer(await vmOf(dialect, owner, session.id));
  });

  app.delete("/v1/vms/:id", async (c) => {
    queryOf(c, schemas.emptyQuery);
    const owner = ownerOf(c);
    const { session, sandbox } = await vmOf(dialect, owner, c.req.param("id"));
    // A suspended machine is only its files, so delete the sandbox.
    if (wire.vmStatus({ session, sandbox }) === "suspended") await core.sandboxes.delete(owner, sandbox.name);
    else if (isOver(session.state)) throw new Refusal(404, "VM not found: it was killed before");
    else await core.sessions.stop(owner, session.id);
    return json({ message: "VM killed", vm_id: session.id, session_id: sandbox.id });
  });

  app.post("/v1/vms/:id/clone", async (c) => {
    queryOf(c, schemas.waitQuery);
    const { snapshot_name: name } = await bodyOf(c, schemas.cloneBody);
    const owner = ownerOf(c);
    const { sandbox } = await alive(dialect, owner, c.req.param("id"));
    return answer(await core.sandboxes.branch(owner, sandbox.name, {}, name ?? undefined));
  });

  app.post("/v1/vms/:id/suspend", async (c) => {
    queryOf(c, schemas.waitQuery);
    await bodyOf(c, schemas.emptyBody);
    const owner = ownerOf(c);
    const { session } = await vmOf(dialect, owner, c.req.param("id"));
    await core.sessions.snapshot(owner, session.id);
    return answer(await vmOf(dialect, owner, session.id));
  });

  app.post("/v1/vms/:id/resume", async (c) => {
    queryOf(c, schemas.waitQuery);
    await bodyOf(c, schemas.emptyBody);
    const owner = ownerOf(c);
    const vm = await vmOf(dialect, owner, c.req.param("id"));
    if (wire.vmStatus(vm) === "killed") throw new Refusal(409, "Cannot resume the VM: it was killed");
    return answer(await orNotFound(core.sandboxes.resume(owner, vm.sandbox.name), "VM"));
  });

  app.post("/v1/vms/:id/snapshot", async (c) => {
    queryOf(c, schemas.waitQuery);
    const { name } = await bodyOf(c, schemas.snapshotBody);
    const owner = ownerOf(c);
    const { session } = await vmOf(dialect, owner, c.req.param("id"));
    const options = { name: name ?? undefined, expiration: forEver };
    return json(wire.snapshot((await core.sessions.checkpoint(owner, session.id, options)).snapshot));
  });

  app.get("/v1/vms/:id/volumes", async (c) => {
    queryOf(c, schemas.emptyQuery);
    return json(wire.mounts((await vmOf(dialect, ownerOf(c), c.req.param("id"))).sandbox));
  });

  app.post("/v1/vms/:id/volumes", async (c) => {
    queryOf(c, schemas.waitQuery);
    const mount = await bodyOf(c, schemas.mountBody);
    const owner = ownerOf(c);
    const { sandbox } = await asleep(dialect, owner, c.req.param("id"));
    const added = await wantedMounts(dialect, owner, [mount]);
    const mounts = { ...asWanted(sandbox.mounts), ...added };
    if (Object.keys(mounts).length > mostMounts) throw new Refusal(400, `A VM has at most ${mostMounts} volumes`);
    return json(wire.mounts(await core.sandboxes.update(owner, sandbox.name, { mounts })));
  });

  app.delete("/v1/vms/:id/volumes/:volume", async (c) => {
    const { mount_path: path } = queryOf(c, schemas.unmountQuery);
    const owner = ownerOf(c);
    const { sandbox } = await asleep(dialect, owner, c.req.param("id"));
    const goes = ([at, { driveId }]: [string, { driveId: string }]) =>
      driveId === c.req.param("volume") && (path === undefined || path === at);
    const entries = Object.entries(sandbox.mounts);
    if (!entries.some(goes)) throw notFound("Mount");
    const mounts = asWanted(Object.fromEntries(entries.filter((entry) => !goes(entry))));
    return json(wire.mounts(await core.sandboxes.update(owner, sandbox.name, { mounts })));
  });
}

const forEver = 0;
const mostMounts = 4;

type VmBody = z.output<Schemas["vmBody"]>;

async function vmSpec(dialect: Dialect, owner: Owner, body: VmBody) {
  const { egress_policy: egress, snapshot_id: snapshotId, share, volumes } = body;
  if (body.snapshot_name != null && body.snapshot_on_terminate !== true) {
    throw new Refusal(400, "Cannot name a snapshot that is not taken: snapshot_on_terminate should be true");
  }
  return {
    ...machineSpec(body),
    ...(body.snapshot_on_terminate != null && { persistent: body.snapshot_on_terminate }),
    ...(body.snapshot_name != null && { snapshotName: body.snapshot_name, snapshotExpiration: forEver }),
    ...(egress && { networkPolicy: policyOf(egress) }),
    ...(snapshotId != null && { source: { kind: "snapshot" as const, snapshotId } }),
    ...(share?.is_public && { ports: [share.port] }),
    ...(volumes && { mounts: await wantedMounts(dialect, owner, volumes) }),
  };
}

/** starts a new machine for a session without one; the session's settings cannot change here */
async function again(dialect: Dialect, owner: Owner, id: string, spec: object): Promise<Vm> {
  const usual = { ...machineSpec({}) } as Record<string, unknown>;
  const changed = Object.entries(spec).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(usual[name]));
  if (changed.length > 0) {
    throw new Refusal(400, "Cannot change a session here: with session_id nothing else should be given");
  }
  const { name } = await sessionOf(dialect, owner, id);
  return dialect.core.sandboxes.resume(owner, name, { fresh: true });
}

/** the machine, which must be running */
async function alive(dialect: Dialect, owner: Owner, id: string): Promise<Vm> {
  const vm = await vmOf(dialect, owner, id);
  await dialect.core.sessions.running(owner, vm.session.id);
  return vm;
}

/** the machine, which must be suspended: volumes are mounted only when a machine boots */
async function asleep(dialect: Dialect, owner: Owner, id: string): Promise<Vm> {
  const vm = await vmOf(dialect, owner, id);
  if (wire.vmStatus(vm) === "suspended") return vm;
  throw new Refusal(409, "Cannot change the volumes of a VM that runs: suspend it first, or name them when it is made");
}

async function wantedMounts(
  { core }: Dialect,
  owner: Owner,
  wanted: NonNullable<VmBody["volumes"]>,
): Promise<Record<string, WantedMount>> {
  const entries = wanted.map(async (each): Promise<[string, WantedMount]> => {
    if (each.checkpoint_id != null) throw notOffered("a checkpoint of a volume is");
    const { name } = await orNotFound(core.drives.byId(owner, each.volume_id), "Volume");
    return [each.mount_path, { drive: name, mode: each.mode === "rw" ? "read-write" : "snapshot" }];
  });
  const mounts = await Promise.all(entries);
  const paths = mounts.map(([path]) => path);
  const overlap = paths.some((one, i) => paths.some((other, j) => i !== j && `${other}/`.startsWith(`${one}/`)));
  if (overlap) throw new SandkeepError("invalid", "Cannot mount the volumes: their paths overlap");
  return Object.fromEntries(mounts);
}

function asWanted(mounts: Vm["sandbox"]["mounts"]): Record<string, WantedMount> {
  return Object.fromEntries(Object.entries(mounts).map(([path, { drive, mode }]) => [path, { drive, mode }]));
}
