/** Sandboxes: create, find, change, resume, fork and delete them, each by its name within its project. */

import type { FairSemaphore } from "../../base/concurrency/fair-semaphore.ts";
import { SingleFlight } from "../../base/concurrency/single-flight.ts";
import { after } from "../../base/concurrency/waits.ts";
import { definedOf } from "../../base/defined.ts";
import type { Quotas } from "../access/quotas.ts";
import type { Context } from "../context.ts";
import type { Drives } from "../drives/drives.ts";
import { resolveBase, type WantedBase, type WantedImage } from "../images/images.ts";
import { PullReports } from "../images/pull-reports.ts";
import { isSandkeepError, notFound, SandkeepError } from "../model/errors.ts";
import type {
  Ingress,
  KeepLastSnapshots,
  Lifetime,
  Mount,
  Owner,
  Sandbox,
  SandboxBase,
  Session,
  Snapshot,
  TagValue,
} from "../model/sandbox.ts";
import { type NetworkPolicy, sealPolicy } from "../network/network-policy.ts";
import { routesFor } from "../network/routes.ts";
import type { Page, SandboxChanges, SandboxFilter, SandboxQuery } from "../ports/store.ts";
import { type Boots, sizeOf } from "../sessions/boot.ts";
import { type Endings, notRunning } from "../sessions/end.ts";
import { sessionOf } from "../sessions/new-session.ts";
import type { Pauses } from "../sessions/pauses.ts";
import { isOver } from "../sessions/states.ts";
import type { Transitions } from "../sessions/transitions.ts";
import type { Captures } from "../snapshots/captures.ts";
import { startsWithoutSnapshot } from "../snapshots/lost-snapshots.ts";
import type { Retention } from "../snapshots/retention.ts";
import { type DeleteOptions, Deletions } from "./deletions.ts";
import { sealEnvironment } from "./environments.ts";
import { newSandbox } from "./new-sandbox.ts";
import { requireElsewhere } from "./regions.ts";
import type { Source } from "./sources.ts";

export interface CreateSpec extends ForkSpec {
  base: WantedBase;
  source?: Source | undefined;
  /** whether a sandbox without a name uses its first session's id, for APIs that know no other */
  namedBySession?: boolean | undefined;
}

/** what a fork may have different from its origin */
export interface ForkSpec {
  name?: string | undefined;
  ports?: number[] | undefined;
  timeout?: number | undefined;
  lifetime?: Lifetime | undefined;
  onTimeout?: Sandbox["onTimeout"];
  vcpus?: number | undefined;
  /** MiB; default by its number of processors */
  memory?: number | undefined;
  persistent?: boolean | undefined;
  networkPolicy?: NetworkPolicy | undefined;
  networkId?: string | undefined;
  env?: Record<string, string> | undefined;
  tags?: Record<string, TagValue> | undefined;
  ingress?: Ingress | undefined;
  notes?: Sandbox["notes"] | undefined;
  snapshotExpiration?: number | undefined;
  snapshotName?: string | undefined;
  keepLastSnapshots?: KeepLastSnapshots | undefined;
  mounts?: Record<string, WantedMount> | undefined;
  region?: string | undefined;
  failoverRegions?: string[] | undefined;
  cwd?: string | undefined;
  user?: string | undefined;
}

export type Draft = ForkSpec & Pick<CreateSpec, "namedBySession">;

export interface WantedMount {
  drive: string;
  mode: Mount["mode"];
}

export interface UpdateSpec
  extends Omit<ForkSpec, "name" | "lifetime" | "networkId" | "keepLastSnapshots" | "cwd" | "user"> {
  networkId?: string | null | undefined;
  keepLastSnapshots?: KeepLastSnapshots | null | undefined;
  currentSnapshotId?: string | undefined;
  runtime?: string | undefined;
}

export interface Booted {
  sandbox: Sandbox;
  session: Session;
}

export interface Resumed extends Booted {
  /** false if the session ran already */
  resumed: boolean;
}

export interface ResumeOptions {
  /** whether a sandbox without a snapshot starts again from its image */
  fresh?: boolean | undefined;
  /** timeout of the session, unless it runs already; by default the sandbox's, or what a paused session had left */
  timeout?: number | undefined;
  /** whether a paused session goes on with its memory, or ends and a new one starts with its files; default true */
  memory?: boolean | undefined;
}

export interface SandboxesOptions {
  context: Context;
  transitions: Transitions;
  boots: Boots;
  endings: Endings;
  captures: Captures;
  pauses: Pauses;
  retention: Retention;
  drives: Drives;
  quotas: Quotas;
  /** limits how many sessions callers stop at once */
  turns: FairSemaphore;
  /** call when the time at which a session expires has changed */
  expiryChanged: () => void;
}

/** how long to wait for a change of an ending session before reading its record again, in ms */
const longestChange = 1000;

export class Sandboxes {
  readonly #options: SandboxesOptions;
  readonly #context: Context;
  /** resumes under way, by sandbox */
  readonly #resumes = new SingleFlight<Resumed>();
  readonly #pulls: PullReports;
  readonly #deletions: Deletions;

  constructor(options: SandboxesOptions) {
    this.#options = options;
    this.#context = options.context;
    this.#pulls = new PullReports(options.context);
    this.#deletions = new Deletions(options);
  }

  /** the sandbox runs when this resolves; on failure nothing of it is left */
  async create(owner: Owner, spec: CreateSpec): Promise<Booted> {
    const snapshot = spec.source?.kind === "snapshot" ? await this.#usable(owner, spec.source.snapshotId) : undefined;
    const base = snapshot?.base ?? (await this.#pulls.base(owner, spec.base));
    const booted = await this.#draft(owner, this.#sealed(spec), base, snapshot);
    const source = spec.source?.kind === "snapshot" ? undefined : spec.source;
    return this.#boot(booted, snapshot, source);
  }

  async get(owner: Owner, name: string): Promise<Booted> {
    const sandbox = await this.#find(owner, name);
    return { sandbox, session: await this.#session(sandbox) };
  }

  /** by its id; throws `forbidden` if it belongs to another project */
  async byId(owner: Owner, id: string): Promise<Sandbox> {
    const sandbox = await this.#context.store.getSandbox(id);
    const named = sandbox && (await this.#context.store.findSandbox(sandbox.projectId, sandbox.name));
    // a deleted sandbox no longer has its name
    if (named?.id !== id) throw notFound("sandbox", id);
    if (named.projectId === owner.projectId) return named;
    throw new SandkeepError("forbidden", `Not authorized: sandbox "${id}" belongs to someone else`, {
      about: { kind: "sandbox" },
    });
  }

  async list(owner: Owner, query: Omit<SandboxQuery, "projectId">): Promise<Page<Sandbox>> {
    return this.#context.store.listSandboxes({ ...query, projectId: owner.projectId });
  }

  /** with the current session of each */
  async listWithSessions(owner: Owner, query: Omit<SandboxQuery, "projectId">): Promise<Page<Booted>> {
    const { items, ...page } = await this.list(owner, query);
    const sessions = await this.#context.store.getSessions(items.map(({ currentSessionId }) => currentSessionId));
    const byId = new Map(sessions.map((session) => [session.id, session]));
    const pairs = items.map((sandbox) => ({ sandbox, session: byId.get(sandbox.currentSessionId) }));
    return { ...page, items: pairs.flatMap(({ sandbox, session }) => (session ? [{ sandbox, session }] : [])) };
  }

  /** the running session, the paused one, which goes on, or a new one from the sandbox's snapshot; waits for a stop */
  async resume(owner: Owner, name: string, options: ResumeOptions = {}): Promise<Resumed> {
    const { id } = await this.#find(owner, name);
    const there = this.#resumes.get(id);
    if (there) return { ...(await there), resumed: false };
    return this.#resumes.start(id, () => this.#resume(owner, name, options));
  }

  /** takes effect in the next session, except for routes, which change at once */
  async update(owner: Owner, name: string, changes: UpdateSpec): Promise<Sandbox> {
    const sandbox = await this.#find(owner, name);
    requireElsewhere(sandbox, changes);
    if (changes.currentSnapshotId !== undefined) await this.#usable(owner, changes.currentSnapshotId);
    const { vcpus, memory, ports, mounts, networkId, keepLastSnapshots, runtime, ...plain } = changes;
    const stored: SandboxChanges = { ...this.#sealed(plain), updatedAt: this.#context.now() };
    if (vcpus !== undefined || memory !== undefined) Object.assign(stored, sizeOf(vcpus ?? sandbox.vcpus, memory));
    if (ports !== undefined) stored.routes = routesFor(this.#context.ids, ports, sandbox.routes);
    if (mounts !== undefined) stored.mounts = await this.#mounts(owner, mounts);
    if (networkId !== undefined) stored.networkId = networkId ?? undefined;
    if (keepLastSnapshots !== undefined) stored.keepLastSnapshots = keepLastSnapshots ?? undefined;
    if (runtime !== undefined) stored.base = await resolveBase(this.#context, owner, { runtime });
    const updated = await this.#context.store.updateSandbox(sandbox.id, stored);
    if (!updated) throw notFound("sandbox", name);
    this.#publish("sandbox.changed", updated);
    return updated;
  }

  /** stops it if it runs */
  async delete(owner: Owner, name: string, options: DeleteOptions = {}): Promise<Sandbox> {
    return this.#deletions.delete(owner, await this.#find(owner, name), options);
  }

  /** the number of items in a list, without reading it */
  async count(owner: Owner, query: Omit<SandboxFilter, "projectId">): Promise<number> {
    return this.#context.store.countSandboxes({ ...query, projectId: owner.projectId });
  }

  /** a new sandbox from the origin's snapshot, from its image if it has none, or from another image */
  async fork(owner: Owner, name: string, changes: ForkSpec, image?: string | WantedImage): Promise<Booted> {
    const origin = await this.#find(owner, name);
    const base = image === undefined ? origin.base : await resolveBase(this.#context, owner, { image });
    const snapshotId = image === undefined ? origin.currentSnapshotId : undefined;
    const snapshot = snapshotId === undefined ? undefined : await this.#usable(owner, snapshotId);
    const spec: ForkSpec = {
      // A closed port would be open under its new label.
      ports: origin.routes.filter(({ closed }) => !closed).map(({ port }) => port),
      timeout: origin.timeout,
      lifetime: origin.lifetime,
      onTimeout: origin.onTimeout,
      vcpus: origin.vcpus,
      ...(changes.vcpus === undefined && { memory: origin.memory }),
      persistent: origin.persistent,
      networkPolicy: origin.networkPolicy,
      networkId: origin.networkId,
      env: origin.env,
      tags: origin.tags,
      ingress: origin.ingress,
      notes: origin.notes,
      snapshotExpiration: origin.snapshotExpiration,
      snapshotName: origin.snapshotName,
      keepLastSnapshots: origin.keepLastSnapshots,
      region: origin.region,
      failoverRegions: origin.failoverRegions,
      ...definedOf(this.#sealed(changes)),
    };
    return this.#boot(await this.#draft(owner, spec, base, snapshot), snapshot);
  }

  /** a fork of the current state: a running sandbox is captured first, and runs on */
  async branch(owner: Owner, name: string, changes: ForkSpec, snapshotName?: string): Promise<Booted> {
    const { session } = await this.get(owner, name);
    await this.#requireUnused(owner, changes.name);
    const machine = session.state === "running" ? this.#context.runtime.machine(session.id) : undefined;
    if (machine) await this.#options.quotas.requireDisk(session);
    if (machine) await this.#options.captures.forFork({ session, machine, name: snapshotName, refusal: notRunning });
    return this.fork(owner, name, changes);
  }

  /** undoes a create whose caller never got the answer */
  async abandon(owner: Owner, sandboxId: string): Promise<void> {
    const sandbox = await this.#context.store.getSandbox(sandboxId);
    if (sandbox && sandbox.projectId === owner.projectId) await this.#deletions.now(sandbox, true);
  }

  #sealed<T extends Pick<ForkSpec, "networkPolicy" | "env">>(spec: T): T {
    const { seal } = this.#context;
    const { networkPolicy, env } = spec;
    const policy = networkPolicy && { networkPolicy: sealPolicy(networkPolicy, seal.seal) };
    return { ...spec, ...policy, ...(env && { env: sealEnvironment(env, seal) }) };
  }

  /** a sandbox and its first session, not stored yet; refuses a taken name before anything is made */
  async #draft(owner: Owner, spec: Draft, base: SandboxBase, snapshot: Snapshot | undefined): Promise<Booted> {
    const { now, limits } = this.#context;
    await this.#requireUnused(owner, spec.name);
    const timeout = spec.timeout ?? limits.defaultTimeout;
    this.#requireTimeout(timeout);
    const at = now();
    const { id: sessionId, shortId } = this.#context.ids.session();
    const mounts = await this.#mounts(owner, spec.mounts ?? {});
    const ids = { ...this.#context.ids, id: this.#context.ids.sandbox(), sessionId };
    const wire = this.#context.origin?.().wire;
    const sandbox = newSandbox(owner, spec, { base, limits, at, timeout, mounts, ids, snapshot, wire });
    requireElsewhere(sandbox);
    return { sandbox, session: sessionOf(sandbox, { id: sessionId, shortId }, at, snapshot) };
  }

  async #requireUnused(owner: Owner, name: string | undefined): Promise<void> {
    if (name !== undefined && (await this.#context.store.findSandbox(owner.projectId, name))) throw nameTaken(name);
  }

  #requireTimeout(timeout: number): void {
    const { maxTimeout } = this.#context.limits;
    if (timeout <= maxTimeout) return;
    throw new SandkeepError("invalid", `Invalid request: \`timeout\` should be <= ${maxTimeout} ms.`);
  }

  async #record({ sandbox, session }: Booted): Promise<void> {
    try {
      await this.#context.store.insertSandbox(sandbox, session);
    } catch (cause) {
      throw isSandkeepError(cause, "exists") ? nameTaken(sandbox.name) : cause;
    }
    this.#publish("sandbox.created", sandbox);
    this.#options.transitions.begun(session);
  }

  async #boot(
    { sandbox, session }: Booted,
    snapshot: Snapshot | undefined,
    source?: Exclude<Source, { kind: "snapshot" }>,
  ) {
    using _ = await this.#deletions.whenThereIsRoom(async () => {
      this.#options.boots.requireRoom();
      return this.#options.quotas.reserve(session, sandbox, { creates: true });
    });
    const { store, now, logError } = this.#context;
    const running = await this.#options.boots.boot(sandbox, session, {
      recorded: this.#record({ sandbox, session }),
      root: snapshot ? { snapshot: snapshot.runtimeId } : { image: sandbox.base.image },
      ...(source && { source }),
      // a create succeeds completely or leaves nothing
      failed: async () => {
        if (await store.deleteSandbox(sandbox.id, now())) this.#publish("sandbox.deleted", sandbox);
      },
    });
    if (snapshot) await this.#options.retention.use(snapshot).catch(logError);
    this.#options.expiryChanged();
    return { sandbox: { ...sandbox, state: running.state, stateChangedAt: running.updatedAt }, session: running };
  }

  async #resume(owner: Owner, name: string, options: ResumeOptions): Promise<Resumed> {
    const { fresh = false, timeout, memory = true } = options;
    if (timeout !== undefined) this.#requireTimeout(timeout);
    for (;;) {
      const { currentSessionId } = await this.#find(owner, name);
      await this.#options.pauses.settled(currentSessionId);
      const changed = this.#context.events.changed(currentSessionId);
      const { sandbox, session } = await this.get(owner, name);
      const hasDied = this.#context.runtime.end(session.id) !== undefined;
      if (session.state === "running" && !hasDied) return { sandbox, session, resumed: false };
      if (session.state === "paused" && !hasDied) {
        const running = memory ? await this.#options.pauses.resume(session, timeout) : undefined;
        if (running) return { ...(await this.#with(running)), resumed: true };
        if (!memory) await this.#options.endings.stop(session, "asked", "It was resumed from its files");
        continue;
      }
      if (!isOver(session.state)) {
        await this.#settle(session.id, changed);
        continue;
      }
      const isNew = fresh ? !sandbox.currentSnapshotId : await startsWithoutSnapshot(this.#context, sandbox);
      const snapshot = isNew ? undefined : await this.#resumable(owner, sandbox);
      this.#options.boots.requireRoom();
      const configured = timeout === undefined ? sandbox : { ...sandbox, timeout };
      const next = sessionOf(configured, this.#context.ids.session(), this.#context.now(), snapshot);
      using _ = await this.#options.quotas.reserve(next, sandbox);
      // another caller was faster: use its session
      if (!(await this.#context.store.insertSession(next, session.id))) continue;
      this.#options.transitions.begun(next);
      const root = snapshot ? { snapshot: snapshot.runtimeId } : { image: sandbox.base.image };
      const running = await this.#options.boots.boot(sandbox, next, { root });
      if (snapshot) await this.#options.retention.use(snapshot);
      this.#options.expiryChanged();
      return { ...(await this.#with(running)), resumed: true };
    }
  }

  /** waits until the pending boot or stop has changed the session; records the end of a dead machine */
  async #settle(sessionId: string, changed: Promise<void>): Promise<void> {
    const end = this.#context.runtime.end(sessionId);
    if (end) await this.#options.endings.machineEnded(end);
    await this.#options.boots.settled(sessionId);
    await this.#options.endings.settled(sessionId);
    await Promise.race([changed, after(longestChange)]);
  }

  async #resumable(owner: Owner, sandbox: Sandbox): Promise<Snapshot> {
    if (sandbox.currentSnapshotId === undefined) {
      const message = `Cannot resume sandbox "${sandbox.name}": it has no snapshot`;
      throw new SandkeepError("conflict", message, { about: { kind: "snapshot" } });
    }
    return this.#usable(owner, sandbox.currentSnapshotId);
  }

  /** a snapshot of this project that can be booted from */
  async #usable(owner: Owner, id: string): Promise<Snapshot> {
    const snapshot = await this.#context.store.getSnapshot(id);
    if (snapshot?.projectId !== owner.projectId) throw new SandkeepError("not-found", `Snapshot '${id}' not found.`);
    const expired = snapshot.expiresAt !== undefined && snapshot.expiresAt <= this.#context.now();
    if (snapshot.state === "created" && !expired) return snapshot;
    const message = `Cannot boot from snapshot '${id}': it ${expired ? "expired" : "was deleted"}.`;
    throw new SandkeepError("gone", message, { about: { kind: "snapshot", name: id } });
  }

  #publish(type: "sandbox.created" | "sandbox.changed" | "sandbox.deleted", { id, name, projectId }: Sandbox): void {
    this.#context.events.publish(projectId, { type, sandbox: name, sandboxId: id });
  }

  async #mounts(owner: Owner, wanted: Record<string, WantedMount>): Promise<Record<string, Mount>> {
    const entries = Object.entries(wanted).map(async ([path, { drive, mode }]): Promise<[string, Mount]> => {
      const { id } = await this.#options.drives.get(owner, drive);
      return [path, { driveId: id, drive, mode }];
    });
    return Object.fromEntries(await Promise.all(entries));
  }

  async #find(owner: Owner, name: string): Promise<Sandbox> {
    const sandbox = await this.#context.store.findSandbox(owner.projectId, name);
    if (!sandbox) throw notFound("sandbox", name);
    return sandbox;
  }

  async #session(sandbox: Sandbox): Promise<Session> {
    const session = await this.#context.store.getSession(sandbox.currentSessionId);
    if (!session) throw new SandkeepError("internal", `Sandbox "${sandbox.name}" has lost its session`);
    return session;
  }

  async #with(session: Session): Promise<Booted> {
    const sandbox = await this.#context.store.getSandbox(session.sandboxId);
    if (!sandbox) throw new SandkeepError("not-found", `The sandbox of session "${session.id}" is gone`);
    return { sandbox, session };
  }
}

const nameTaken = (name: string) =>
  new SandkeepError("exists", `Cannot name a sandbox "${name}": one of that name already exists in the project`, {
    about: { kind: "sandbox", name },
  });
