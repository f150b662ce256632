/** Sessions by id: every key of the owning team may use them. */

import type { FairSemaphore } from "../../base/concurrency/fair-semaphore.ts";
import type { Quotas } from "../access/quotas.ts";
import { askToEnd } from "../commands/image-command.ts";
import type { Context } from "../context.ts";
import { beginTrust, trusted } from "../images/trust.ts";
import { isSandkeepError, SandkeepError } from "../model/errors.ts";
import type { Caller, Owner, Sandbox, Session, Snapshot, Totals } from "../model/sandbox.ts";
import { type NetworkPolicy, sealPolicy } from "../network/network-policy.ts";
import { networkOf } from "../network/networks.ts";
import type { Machine } from "../ports/runtime.ts";
import type { Page, PageQuery, SessionQuery, SessionSummary, Span } from "../ports/store.ts";
import { openEnvironment } from "../sandboxes/environments.ts";
import type { Captures } from "../snapshots/captures.ts";
import type { Retention } from "../snapshots/retention.ts";
import type { Activity } from "./activity.ts";
import { type Concurrency, type ConcurrencyQuery, concurrency } from "./concurrency.ts";
import { type Endings, notRunning } from "./end.ts";
import { expiryOf, ranFor, runsSince } from "./lifetime.ts";
import { type Load, Loads } from "./load.ts";
import type { Pauses } from "./pauses.ts";
import type { Sample, SampleQuery, Samples } from "./samples.ts";
import { isOver } from "./states.ts";
import { type Timeline, type TimelineQuery, timeline } from "./timeline.ts";

/** most sessions that are read to count how many ran */
const mostRuns = 20_000;

export interface SessionsOptions {
  context: Context;
  activity: Activity;
  endings: Endings;
  captures: Captures;
  pauses: Pauses;
  /** limits how many sessions callers stop at once */
  turns: FairSemaphore;
  /** resolves when the session's boot has succeeded or failed */
  booted: (sessionId: string) => Promise<void>;
  samples: Samples;
  quotas: Pick<Quotas, "requireDisk">;
  retention: Pick<Retention, "record">;
  /** call when the time at which a session expires has changed */
  expiryChanged: () => void;
}

interface SnapshotOptions {
  name?: string | undefined;
  expiration?: number | undefined;
}

interface Checkpoint {
  snapshot: Snapshot;
  session: Session;
}

export interface Running {
  session: Session;
  machine: Machine;
}

export class Sessions {
  readonly #options: SessionsOptions;
  readonly #context: Context;
  readonly #loads: Loads;

  constructor(options: SessionsOptions) {
    this.#options = options;
    this.#context = options.context;
    this.#loads = new Loads(options.context.steady ?? options.context.now);
  }

  async get(caller: Caller, id: string): Promise<Session> {
    const session = await this.#context.store.getSession(id);
    if (session?.teamId !== caller.teamId) throw new SandkeepError("not-found", `Session "${id}" not found.`);
    return session;
  }

  async list(owner: Owner, query: Omit<SessionQuery, "projectId">): Promise<Page<Session>> {
    return this.#context.store.listSessions({ ...query, projectId: owner.projectId });
  }

  /** sessions of the sandbox that has this name now, without those of a deleted sandbox of the same name */
  async ofSandbox(owner: Owner, name: string, query: PageQuery): Promise<Page<Session>> {
    const { store } = this.#context;
    const { projectId } = owner;
    const sandbox = await store.findSandbox(projectId, name);
    if (!sandbox) return { items: [] };
    return store.listSessions({ ...query, projectId, sandboxName: name, after: { at: sandbox.createdAt - 1 } });
  }

  /** newest first, paged by timestamps */
  async timeline({ projectId }: Owner, query: TimelineQuery): Promise<Timeline<Session>> {
    const { store } = this.#context;
    const source = {
      list: (page: Omit<SessionQuery, "projectId">) => store.listSessions({ ...page, projectId }),
      count: (span: Span) => store.countSessions({ ...span, projectId }),
    };
    return timeline(source, query);
  }

  async summaries(owner: Owner, query: Omit<SessionQuery, "projectId">): Promise<Page<SessionSummary>> {
    return this.#context.store.listSessionSummaries({ ...query, projectId: owner.projectId });
  }

  /** with the sandbox of each, deleted ones included */
  async listWithSandboxes(
    owner: Owner,
    query: Omit<SessionQuery, "projectId">,
  ): Promise<Page<{ session: Session; sandbox: Sandbox }>> {
    const { items, ...page } = await this.list(owner, query);
    const sandboxes = await this.#context.store.getSandboxes(items.map(({ sandboxId }) => sandboxId));
    const byId = new Map(sandboxes.map((sandbox) => [sandbox.id, sandbox]));
    const pairs = items.map((session) => ({ session, sandbox: byId.get(session.sandboxId) }));
    return { ...page, items: pairs.flatMap(({ session, sandbox }) => (sandbox ? [{ session, sandbox }] : [])) };
  }

  /** the session itself, or, if it has ended and its files were kept, the current session of its sandbox */
  async successor(caller: Caller, id: string): Promise<Session> {
    const session = await this.get(caller, id);
    if (!isOver(session.state) || session.snapshottedAt === undefined) return session;
    const { currentSessionId } = await this.sandboxOf(caller, id);
    return currentSessionId === id ? session : this.get(caller, currentSessionId);
  }

  /** the session, once a pause, a resume or an end of it that is under way is over */
  async settled(caller: Caller, id: string): Promise<Session> {
    await this.#options.pauses.settled(id);
    const session = await this.get(caller, id);
    if (session.state !== "stopping" && session.state !== "snapshotting") return session;
    await this.#options.endings.settled(id);
    return this.get(caller, id);
  }

  async sandboxOf(caller: Caller, id: string): Promise<Sandbox> {
    const session = await this.get(caller, id);
    const sandbox = await this.#context.store.getSandbox(session.sandboxId);
    if (!sandbox) throw new SandkeepError("not-found", `The sandbox of session "${id}" is gone`);
    return sandbox;
  }

  /** a running session with its machine; counts as a use. Throws if it does not run */
  async running(caller: Caller, id: string): Promise<Running> {
    const running = await this.#running(caller, id);
    this.#options.activity.used(running.session);
    return running;
  }

  /**
   * works with a running session. If its machine dies meanwhile, the end is stored before this fails, so that a resume
   * then starts a new session instead of returning the dead one
   */
  async use<T>(caller: Caller, id: string, work: (running: Running) => Promise<T>): Promise<T> {
    const running = await this.running(caller, id);
    try {
      return await work(running);
    } catch (error) {
      if (!isSandkeepError(error, "gone")) throw error;
      await this.#options.endings.confirm(running.machine);
      const session = await this.get(caller, id);
      throw session.state === "running" ? error : notRunning(session);
    }
  }

  /** only counts as a use */
  async heartbeat(caller: Caller, id: string): Promise<Session> {
    const { session } = await this.#running(caller, id);
    return this.#options.activity.use(session);
  }

  /** the session has ended when this resolves; a repeated call changes nothing */
  /** with `grace`, asks its commands to end first, and waits for them for this many ms */
  async stop(
    caller: Caller,
    id: string,
    { grace = 0 }: { grace?: number | undefined } = {},
  ): Promise<{ session: Session; sandbox: Sandbox; snapshot?: Snapshot }> {
    const session = await this.get(caller, id);
    if (session.state === "pending") await this.#options.booted(id);
    const machine = grace > 0 && session.state !== "paused" ? this.#context.runtime.machine(id) : undefined;
    // Not in its turn: others must not wait for its programs.
    if (machine) await askToEnd(this.#context, machine, grace);
    const stop = () => this.#options.endings.stop(session, "asked", "It was asked to stop");
    const ended = await this.#options.turns.run(caller.teamId, stop);
    const { state, requestedStopAt } = ended.session;
    // A session that ended by itself gets the time of this request.
    const changes = { requestedStopAt: this.#context.now() };
    const asked = requestedStopAt === undefined && (await this.#context.store.updateSession(id, [state], changes));
    return { ...ended, session: asked || ended.session, sandbox: await this.sandboxOf(caller, id) };
  }

  async extend(caller: Caller, id: string, duration: number): Promise<Session> {
    const { session } = await this.running(caller, id);
    return this.setTimeout(caller, id, session.timeout + duration);
  }

  /**
   * stops every program where it is, keeps memory and files, and lets no time pass, until its sandbox is resumed. A host
   * that cannot do this keeps the files, and the session is over
   */
  async pause(caller: Caller, id: string): Promise<Session> {
    const { session } = await this.#running(caller, id);
    return this.#options.pauses.pause(session);
  }

  /** counts from the session's start or last resume, even if it is over then */
  async setTimeout(caller: Caller, id: string, timeout: number): Promise<Session> {
    const { session } = await this.running(caller, id);
    if (session.lifetime === "unlimited") return session;
    const { maxTimeout } = this.#context.limits;
    if (timeout > maxTimeout) {
      throw new SandkeepError(
        "invalid",
        `Invalid request: the timeout would be ${timeout} ms, more than ${maxTimeout} ms.`,
      );
    }
    const at = await (this.#context.settledNow ?? this.#context.now)();
    const changes = { timeout, expiresAt: expiryOf({ ...session, timeout }, at, maxTimeout) };
    const extended = await this.#context.store.updateSession(id, ["running"], changes);
    if (!extended) throw notRunning(await this.get(caller, id));
    this.#options.expiryChanged();
    return extended;
  }

  /** counts from now; with `later`, only extends */
  async endIn(caller: Caller, id: string, duration: number, { later = false } = {}): Promise<Session> {
    const { session } = await this.running(caller, id);
    const at = await (this.#context.settledNow ?? this.#context.now)();
    if (later && (session.expiresAt === undefined || session.expiresAt >= at + duration)) return session;
    return this.setTimeout(caller, id, at - runsSince(session) + duration);
  }

  /** takes effect at once, for this session only, also while it is paused */
  async setNetworkPolicy(caller: Caller, id: string, policy: NetworkPolicy): Promise<Session> {
    const { runtime, store, now, seal } = this.#context;
    const networkPolicy = sealPolicy(policy, seal.seal);
    const found = await this.get(caller, id);
    const paused = found.state === "paused" ? runtime.machine(id) : undefined;
    if (paused) {
      this.#options.pauses.policyChanged(id);
      await paused.setNetwork(networkOf(this.#context, found, networkPolicy));
    } else {
      await this.use(caller, id, async ({ session, machine }) => {
        const network = networkOf(this.#context, session, networkPolicy);
        beginTrust(machine, network, this.#context);
        await Promise.all([machine.setNetwork(network), trusted(machine)]);
      });
    }
    const changes = { networkPolicy, updatedAt: now() };
    const changed = await store.updateSession(id, ["running", "paused"], changes);
    if (!changed) throw notRunning(await this.get(caller, id));
    this.#context.events.publish(changed.projectId, { type: "policy.changed", sessionId: id });
    return changed;
  }

  /** captures its file system and stops it */
  async snapshot(
    caller: Caller,
    id: string,
    options: { expiration?: number | undefined } = {},
  ): Promise<{ snapshot: Snapshot; session: Session }> {
    const { session } = await this.running(caller, id);
    return this.#options.endings.capture(session, options.expiration);
  }

  /** captures its file system without stopping it; a paused session stays paused */
  async checkpoint(caller: Caller, id: string, options: SnapshotOptions = {}): Promise<Checkpoint> {
    const take = async ({ session, machine }: Running) => {
      const snapshot = await this.#options.captures.take({ ...options, session, machine, refusal: notRunning });
      return { snapshot, session };
    };
    const session = await this.get(caller, id);
    await this.#options.quotas.requireDisk(session);
    const machine = session.state === "paused" ? this.#context.runtime.machine(id) : undefined;
    return machine ? take({ session, machine }) : this.use(caller, id, take);
  }

  /** as checkpoint(); of a session that is over, a copy of the snapshot that its sandbox resumes from, and still does then */
  async checkpointOrCopy(caller: Caller, id: string, options: SnapshotOptions): Promise<Checkpoint> {
    const session = await this.get(caller, id);
    if (!isOver(session.state)) return this.checkpoint(caller, id, options);
    await this.#options.quotas.requireDisk(session);
    const { store, runtime } = this.#context;
    const { name, currentSnapshotId = "" } = await this.sandboxOf(caller, id);
    const current = await store.getSnapshot(currentSnapshotId);
    const origin = current && (await store.getSession(current.sessionId));
    const kept = current?.state === "created" ? await runtime.snapshots.get(current.runtimeId) : undefined;
    if (!origin || !kept) throw new SandkeepError("gone", `Cannot copy the snapshot of "${name}": its files are gone`);
    const how = { ...options, method: "manual", isAside: true } as const;
    return { snapshot: await this.#options.retention.record(origin, kept, how), session };
  }

  /** the decrypted variables that every command gets */
  async environment(caller: Caller, id: string): Promise<Record<string, string>> {
    const { session } = await this.running(caller, id);
    return openEnvironment(session.env, this.#context.seal);
  }

  /** its use so far, or up to its end */
  async usage(caller: Caller, id: string): Promise<Totals> {
    const session = await this.get(caller, id);
    const machine = isOver(session.state) ? undefined : this.#context.runtime.machine(id);
    const usage = await machine?.usage();
    return {
      cpuMs: Math.round(usage?.cpuTime ?? session.cpuMs ?? 0),
      durationMs: session.duration ?? (usage ? ranFor(session, this.#context.now()) : 0),
      ingressBytes: usage?.network.received ?? session.ingressBytes ?? 0,
      egressBytes: usage?.network.sent ?? session.egressBytes ?? 0,
    };
  }

  /** its current use */
  async load(caller: Caller, id: string): Promise<Load> {
    const { machine } = await this.#running(caller, id);
    return this.#loads.of(machine);
  }

  /** its use over time, as far as this daemon has seen it */
  async samples(caller: Caller, id: string, query: SampleQuery): Promise<Sample[]> {
    await this.get(caller, id);
    return this.#options.samples.of(id, query);
  }

  /** how many sessions of the project ran at a time; of very many, only the newest count */
  async concurrency({ projectId }: Owner, query: ConcurrencyQuery): Promise<Concurrency[]> {
    const { store, limits } = this.#context;
    // Whatever was created before this has reached the longest that a session may run, or is not over.
    const after = query.from - limits.maxTimeout;
    return concurrency(await store.sessionRuns({ projectId, after, before: query.to, limit: mostRuns }), query);
  }

  async #running(caller: Caller, id: string): Promise<Running> {
    const { runtime } = this.#context;
    let session = await this.get(caller, id);
    if (session.state === "pending") {
      await this.#options.booted(id);
      session = await this.get(caller, id);
    }
    const machine = runtime.machine(id);
    const end = machine ? undefined : runtime.end(id);
    if (session.state === "running" && end) {
      // its machine has just died, and the store does not know yet
      await this.#options.endings.machineEnded(end);
      session = await this.get(caller, id);
    }
    if (session.state !== "running") throw notRunning(session);
    if (!machine) throw notRunning({ ...session, state: "stopping" });
    return { session, machine };
  }
}
