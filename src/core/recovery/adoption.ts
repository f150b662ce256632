/**
 * Rebuilds the rows of machines, snapshots and drives that the database does not know, from their descriptions. An item
 * without a description gets a sandbox of its own in the default project. Existing rows stay as they are, except that a
 * sandbox regains its newer sessions and snapshots.
 */

import { defaultProject, defaultTeam } from "../access/access.ts";
import type { Context } from "../context.ts";
import type { Sandbox, Session, Snapshot } from "../model/sandbox.ts";
import type { Description } from "../ports/recovery-files.ts";
import type { SnapshotInfo } from "../ports/runtime.ts";
import { isOver } from "../sessions/states.ts";
import { takeInventory } from "./unknown.ts";

export type AdoptionContext = Pick<Context, "store" | "runtime" | "ids" | "now" | "files" | "limits" | "defaultImage">;

export interface Adoption {
  sandboxes: string[];
  sessions: number;
  snapshots: number;
  drives: number;
  /** sentences about what could not be adopted */
  left: string[];
}

/** All that is known of one sandbox from what it left. */
interface Group extends Pick<Description, "team" | "project"> {
  sandbox: Sandbox;
  sessions: Map<string, Session>;
  snapshots: Snapshot[];
}

export async function adoptUnknown(context: AdoptionContext): Promise<Adoption> {
  const { store, files } = context;
  const { unknown } = await takeInventory(store, context.runtime);
  const adoption: Adoption = { sandboxes: [], sessions: 0, snapshots: 0, drives: 0, left: [] };
  const groups = new Map<string, Group>();
  const add = (owner: Pick<Description, "team" | "project">, sandbox: Sandbox, session: Session): Group => {
    const group = groups.get(sandbox.id) ?? { ...owner, sandbox, sessions: new Map<string, Session>(), snapshots: [] };
    // The newest description has the newest settings.
    if (sandbox.updatedAt >= group.sandbox.updatedAt) group.sandbox = sandbox;
    const there = group.sessions.get(session.id);
    // A session with a machine counts more than one that left a snapshot.
    if (!there || !isOver(session.state)) group.sessions.set(session.id, session);
    groups.set(sandbox.id, group);
    return group;
  };
  const machineOf = new Map(unknown.ended.map(({ machineId, snapshot }) => [snapshot?.id, machineId]));
  for (const snapshot of unknown.snapshots) {
    const machine = machineOf.get(snapshot.id);
    const described =
      files.description("snapshot", snapshot.id) ??
      (machine === undefined ? undefined : files.description("machine", machine));
    const { owner, sandbox, session, row } = ofSnapshot(context, snapshot, described);
    add(owner, sandbox, session).snapshots.push(row);
  }
  const captured = new Set(unknown.snapshots.map(({ id }) => id));
  for (const end of unknown.ended) {
    // its snapshot already describes it
    if (end.snapshot && captured.has(end.snapshot.id)) continue;
    const { owner, sandbox, session } = ofMachine(context, end.machineId);
    add(owner, sandbox, session);
  }
  for (const id of unknown.live) {
    const { owner, sandbox, session } = ofMachine(context, id);
    add(owner, sandbox, session);
  }
  for (const group of groups.values()) await adoptGroup(context, group, adoption);
  for (const id of unknown.drives) await adoptDrive(context, id, adoption);
  return adoption;
}

/** the machine may live or be dead: the daemon's next start finds out, and keeps its files */
function ofMachine(context: AdoptionContext, id: string) {
  const { now, files, runtime } = context;
  const described = files.description("machine", id);
  const at = runtime.machine(id)?.bootedAt ?? runtime.end(id)?.endedAt ?? now();
  const sandbox = described?.sandbox ?? inventedSandbox(context, id, at);
  const base = described?.session ?? { ...sessionOf(context, sandbox, at), id };
  const { timeout } = base;
  const startedAt = base.startedAt ?? at;
  const owner = ownerOf(context, described);
  if (runtime.machine(id)?.isPaused) {
    const { expiresAt: _, ...paused } = base;
    const session: Session = { ...paused, state: "paused", startedAt, pausedAt: now(), snapshottedAt: now() };
    return { owner, sandbox, session };
  }
  const session: Session = {
    ...base,
    state: "running",
    startedAt,
    // No caller could extend it meanwhile.
    ...(base.lifetime !== "unlimited" && { expiresAt: Math.max(base.expiresAt ?? 0, now() + timeout) }),
  };
  return { owner, sandbox, session };
}

function ofSnapshot(context: AdoptionContext, info: SnapshotInfo, described: Description | undefined) {
  const { ids, now, limits } = context;
  const at = info.createdAt;
  const sandbox = described?.sandbox ?? inventedSandbox(context, info.id, at);
  const base = described?.session ?? sessionOf(context, sandbox, at);
  const { expiresAt: _, ...over } = base;
  const session: Session = { ...over, state: "stopped", stoppedAt: base.stoppedAt ?? at };
  const expiration = described?.snapshot?.expiration ?? limits.snapshotExpiration;
  const row: Snapshot = described?.snapshot ?? {
    id: ids.snapshot(),
    teamId: sandbox.teamId,
    projectId: sandbox.projectId,
    sandboxId: sandbox.id,
    sandboxName: sandbox.name,
    sessionId: session.id,
    runtimeId: info.id,
    base: sandbox.base,
    region: sandbox.region,
    state: "created",
    method: "manual",
    sizeBytes: info.size,
    createdAt: at,
    updatedAt: at,
    lastUsedAt: at,
    expiration,
  };
  // Its lifetime begins again, as no caller could use it meanwhile.
  const lived = { ...row, lastUsedAt: now(), ...(expiration > 0 && { expiresAt: now() + expiration }) };
  return { owner: ownerOf(context, described), sandbox, session, row: lived };
}

async function adoptGroup(context: AdoptionContext, group: Group, adoption: Adoption): Promise<void> {
  const { store } = context;
  await requireProject(context, group);
  const sessions = [...group.sessions.values()].sort((a, b) => a.createdAt - b.createdAt);
  const there = await store.getSandbox(group.sandbox.id);
  const found = there && (await store.findSandbox(there.projectId, there.name));
  if (there && found?.id !== there.id) {
    adoption.left.push(`Sandbox "${there.name}" was deleted: what it left stays in quarantine`);
    return;
  }
  const name = there?.name ?? (await freeName(context, group.sandbox));
  const rename = <T extends { sandboxName: string }>(row: T): T => ({ ...row, sandboxName: name });
  let current = there?.currentSessionId;
  for (const session of sessions.map(rename)) {
    if (await store.getSession(session.id)) continue;
    if (current === undefined) await store.insertSandbox(firstOf({ ...group.sandbox, name }, session), session);
    else if (!(await isNewer(context, session, current)) || !(await store.insertSession(session, current))) {
      adoption.left.push(`Session "${session.id}" of sandbox "${name}" is older than the one on record`);
      continue;
    }
    current = session.id;
    adoption.sessions++;
  }
  const rows = group.snapshots.sort((a, b) => a.createdAt - b.createdAt).map(rename);
  for (const snapshot of rows) {
    if (!(await store.getSession(snapshot.sessionId))) continue;
    await store.insertSnapshot(snapshot);
    adoption.snapshots++;
  }
  await setNewestSession(context, group.sandbox.id);
  if (!there) adoption.sandboxes.push(name);
}

/** makes the sandbox resume from its newest snapshot */
async function setNewestSession({ store, now }: AdoptionContext, sandboxId: string): Promise<void> {
  const [newest] = await store.snapshotsOf(sandboxId);
  if (newest) await store.updateSandbox(sandboxId, { currentSnapshotId: newest.id, updatedAt: now() });
}

async function isNewer({ store }: AdoptionContext, session: Session, current: string): Promise<boolean> {
  const there = await store.getSession(current);
  return there === undefined || session.createdAt >= there.createdAt;
}

function firstOf(sandbox: Sandbox, session: Session): Sandbox {
  const { currentSnapshotId: _, ...rest } = sandbox;
  return { ...rest, currentSessionId: session.id, state: session.state };
}

/** a name that is not taken */
async function freeName({ store }: AdoptionContext, { projectId, name }: Sandbox): Promise<string> {
  for (let number = 0; ; number++) {
    const candidate = number === 0 ? name : `${name}-recovered${number === 1 ? "" : `-${number}`}`;
    if (!(await store.findSandbox(projectId, candidate))) return candidate;
  }
}

async function adoptDrive({ store, files, now }: AdoptionContext, id: string, adoption: Adoption): Promise<void> {
  const described = files.description("drive", id);
  if (!described?.drive) {
    adoption.left.push(`Drive "${id}" has no description: its name and its project are unknown`);
    return;
  }
  await requireProject({ store }, described);
  const { sessionId: _, sandboxName: __, ...drive } = described.drive;
  if (await store.findDrive(drive.projectId, drive.name)) {
    adoption.left.push(`Drive "${id}": its project has another one called "${drive.name}"`);
    return;
  }
  await store.insertDrive({ ...drive, updatedAt: now() });
  adoption.drives++;
}

async function requireProject(
  { store }: Pick<AdoptionContext, "store">,
  { team, project }: Pick<Description, "team" | "project">,
): Promise<void> {
  await store.insertTeam(team);
  if (await store.findProject(team.id, project.id)) return;
  await store.insertProject(project);
}

function ownerOf(
  { ids, now }: AdoptionContext,
  described: Description | undefined,
): Pick<Description, "team" | "project"> {
  if (described) return described;
  const team = { ...defaultTeam, createdAt: now() };
  // Used only in a database without a default project.
  const { uuid } = ids.project();
  return { team, project: { ...defaultProject, uuid, teamId: team.id, createdAt: now() } };
}

/** a sandbox for an item without a description */
function inventedSandbox({ ids, limits, defaultImage }: AdoptionContext, from: string, at: number): Sandbox {
  const vcpus = limits.defaultVcpus;
  return {
    teamId: defaultTeam.id,
    projectId: defaultProject.id,
    id: ids.sandbox(),
    name: `recovered-${from
      .replace(/[^A-Za-z0-9]/g, "")
      .slice(-12)
      .toLowerCase()}`,
    persistent: true,
    base: { image: defaultImage, cwd: "/", user: "root" },
    vcpus,
    memory: vcpus * 2048,
    timeout: limits.defaultTimeout,
    networkPolicy: { mode: "deny-all" },
    env: {},
    tags: {},
    routes: [],
    mounts: {},
    region: limits.defaultRegion,
    failoverRegions: [],
    currentSessionId: "",
    state: "stopped",
    stateChangedAt: at,
    totals: { egressBytes: 0, ingressBytes: 0, cpuMs: 0, durationMs: 0 },
    createdAt: at,
    updatedAt: at,
  };
}

function sessionOf({ ids }: AdoptionContext, sandbox: Sandbox, at: number): Session {
  return {
    ...ids.session(),
    teamId: sandbox.teamId,
    projectId: sandbox.projectId,
    sandboxId: sandbox.id,
    sandboxName: sandbox.name,
    state: "stopped",
    vcpus: sandbox.vcpus,
    memory: sandbox.memory,
    timeout: sandbox.timeout,
    region: sandbox.region,
    cwd: sandbox.base.cwd,
    user: sandbox.base.user,
    env: {},
    persistent: true,
    networkPolicy: sandbox.networkPolicy,
    requestedAt: at,
    createdAt: at,
    updatedAt: at,
    startedAt: at,
  };
}
