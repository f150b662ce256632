/**
 * The interface between the suites in this folder and a store under test: a store, and empty databases to open more of
 * them; and functions that make rows. The suites use only the core's interface, so that they fit any engine.
 */

import { onTestFinished } from "vitest";
import type { Command, Drive, Owner, Sandbox, Session, Snapshot } from "../../../src/core/model/sandbox.ts";
import type { Page, Store } from "../../../src/core/ports/store.ts";

export interface StoreHost {
  /** a store that all tests share: each uses its own project */
  readonly store: Store;
  /** makes a database without rows, which counts in short runs; the returned function opens it, also repeatedly */
  fresh(): Promise<() => Promise<Store>>;
  /** makes a database without tables; the returned function opens it, also repeatedly */
  empty(): Promise<() => Promise<Store>>;
}

/** rows of a run in a fresh database; in the shared one it is as many as in a daemon's, a thousand */
export const shortRun = 100;

/** an empty store, closed when the test ends */
export async function freshStore(host: StoreHost): Promise<Store> {
  return closedAtEnd(await (await host.fresh())());
}

export function closedAtEnd(store: Store): Store {
  onTestFinished(() => store.close());
  return store;
}

/** any moment: only the order of times matters */
export const noon = 1_700_000_000_000;

let count = 0;

/** a unique text */
export function unique(prefix: string): string {
  count++;
  return `${prefix}${process.pid.toString(36)}x${count.toString(36)}`;
}

/** a project of a new team */
export async function newOwner(store: Store): Promise<Owner> {
  const teamId = unique("team_");
  await store.insertTeam({ id: teamId, slug: unique("slug-"), createdAt: noon });
  return newProject(store, teamId);
}

/** another project of that team */
export async function newProject(store: Store, teamId: string): Promise<Owner> {
  const projectId = unique("prj_");
  await store.insertProject({
    id: projectId,
    uuid: unique("uuid-"),
    teamId,
    name: unique("project-"),
    createdAt: noon,
  });
  return { teamId, projectId };
}

export interface Pair {
  sandbox: Sandbox;
  session: Session;
}

/** a sandbox and its first session, not in a store yet, with the required fields only */
export function sandboxOf(owner: Owner, fields: Partial<Sandbox> = {}): Pair {
  const sandbox: Sandbox = {
    ...owner,
    id: unique("sandbox_"),
    name: unique("name-"),
    persistent: true,
    base: { image: "host", cwd: "/vercel/sandbox", user: "vercel-sandbox" },
    vcpus: 2,
    memory: 4096,
    timeout: 300_000,
    networkPolicy: { mode: "allow-all" },
    env: {},
    tags: {},
    routes: [],
    mounts: {},
    region: "iad1",
    failoverRegions: [],
    currentSessionId: unique("sbx_"),
    state: "pending",
    stateChangedAt: noon,
    totals: { egressBytes: 0, ingressBytes: 0, cpuMs: 0, durationMs: 0 },
    createdAt: noon,
    updatedAt: noon,
    ...fields,
  };
  return { sandbox, session: sessionOf(sandbox, { id: sandbox.currentSessionId, state: sandbox.state }) };
}

export function sessionOf(sandbox: Sandbox, fields: Partial<Session> = {}): Session {
  return {
    teamId: sandbox.teamId,
    projectId: sandbox.projectId,
    id: unique("sbx_"),
    shortId: unique("s"),
    sandboxId: sandbox.id,
    sandboxName: sandbox.name,
    state: "pending",
    vcpus: sandbox.vcpus,
    memory: sandbox.memory,
    timeout: sandbox.timeout,
    region: sandbox.region,
    cwd: sandbox.base.cwd,
    user: sandbox.base.user,
    env: sandbox.env,
    persistent: sandbox.persistent,
    networkPolicy: sandbox.networkPolicy,
    requestedAt: sandbox.createdAt,
    createdAt: sandbox.createdAt,
    updatedAt: sandbox.createdAt,
    ...fields,
  };
}

/** a sandbox in the store, with a new owner unless one is given */
export async function newSandbox(
  store: Store,
  { owner, ...fields }: Partial<Sandbox> & { owner?: Owner } = {},
): Promise<Pair> {
  const pair = sandboxOf(owner ?? (await newOwner(store)), fields);
  await store.insertSandbox(pair.sandbox, pair.session);
  return pair;
}

export function commandOf(session: Session, fields: Partial<Command> = {}): Command {
  return {
    teamId: session.teamId,
    id: unique("cmd_"),
    sessionId: session.id,
    name: "echo",
    args: ["hello"],
    cwd: "/vercel/sandbox",
    startedAt: noon,
    ...fields,
  };
}

export function snapshotOf({ sandbox, session }: Pair, fields: Partial<Snapshot> = {}): Snapshot {
  return {
    teamId: sandbox.teamId,
    projectId: sandbox.projectId,
    id: unique("snap_"),
    sandboxId: sandbox.id,
    sandboxName: sandbox.name,
    sessionId: session.id,
    runtimeId: unique("runtime-"),
    base: sandbox.base,
    region: "iad1",
    state: "created",
    method: "manual",
    sizeBytes: 123_456_789_012,
    createdAt: noon,
    updatedAt: noon,
    lastUsedAt: noon,
    expiration: 0,
    ...fields,
  };
}

export function driveOf(owner: Owner, fields: Partial<Drive> = {}): Drive {
  return {
    ...owner,
    id: unique("drv_"),
    name: unique("drive-"),
    region: "iad1",
    maxSizeBytes: 2 ** 44,
    createdAt: noon,
    updatedAt: noon,
    ...fields,
  };
}

/** all items of a list, page by page; `between` is called before each further page */
export async function walk<T>(
  read: (cursor: string | undefined) => Promise<Page<T>>,
  between: () => Promise<void> = async () => undefined,
): Promise<T[]> {
  const items: T[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await read(cursor);
    items.push(...page.items);
    if (page.next === undefined) return items;
    cursor = page.next;
    await between();
  }
}

/** a query for the next page, or for the first */
export function at(cursor: string | undefined): { cursor?: string } {
  return cursor === undefined ? {} : { cursor };
}
