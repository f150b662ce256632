/** Sessions, found by their id alone: whoever's team owns one may use it. */

import type { Context } from "./context.ts";
import { type Endings, notRunning } from "./endings.ts";
import { SandkeepError } from "./errors.ts";
import { type NetworkPolicy, networkMode, sealPolicy } from "./network-policy.ts";
import type { Machine } from "./runtime.ts";
import type { Caller, Owner, Sandbox, Session, Snapshot } from "./sandbox.ts";
import type { Page, SessionQuery } from "./store.ts";

export interface SessionsOptions {
  context: Context;
  endings: Endings;
  /** resolves when a boot that is under way is over */
  booted: (sessionId: string) => Promise<void>;
  /** the time at which a session expires has changed */
  expiryChanged: () => void;
}

export class Sessions {
  readonly #options: SessionsOptions;
  readonly #context: Context;

  constructor(options: SessionsOptions) {
    this.#options = options;
    this.#context = options.context;
  }

  async get(caller: Caller, id: string): Promise<Session> {
    const session = await this.#context.store.getSession(id);
    if (session?.teamId !== caller.teamId) throw new SandkeepError("not-found", `Session "${id}" not found.`);
    return session;
  }

  async list(owner: Owner, query: Omit<SessionQuery, "projectId">): Promise<Page<Session>> {
    return this.#context.store.listSessions({ ...query, projectId: owner.projectId });
  }

  async sandboxOf(caller: Caller, id: string): Promise<Sandbox> {
    const session = await this.get(caller, id);
    const sandbox = await this.#context.store.getSandbox(session.sandboxId);
    if (!sandbox) throw new SandkeepError("not-found", `The sandbox of session "${id}" is gone`);
    return sandbox;
  }

  /** a session with its machine, or why it cannot be used now */
  async running(caller: Caller, id: string): Promise<{ session: Session; machine: Machine }> {
    let session = await this.get(caller, id);
    if (session.state === "pending") {
      await this.#options.booted(id);
      session = await this.get(caller, id);
    }
    if (session.state !== "running") throw notRunning(session);
    const machine = this.#context.runtime.machine(id);
    // its machine has just died: the record will say so in a moment
    if (!machine) throw new SandkeepError("stopping", "Sandbox is stopping and is no longer available.");
    return { session, machine };
  }

  /** final when it resolves; asking again changes nothing */
  async stop(caller: Caller, id: string): Promise<{ session: Session; sandbox: Sandbox; snapshot?: Snapshot }> {
    const session = await this.get(caller, id);
    if (session.state === "pending") await this.#options.booted(id);
    const ended = await this.#options.endings.stop(session, "asked", "It was asked to stop");
    return { ...ended, sandbox: await this.sandboxOf(caller, id) };
  }

  async extend(caller: Caller, id: string, duration: number): Promise<Session> {
    const { session } = await this.running(caller, id);
    const timeout = session.timeout + duration;
    const { maxTimeout } = this.#context.limits;
    if (timeout > maxTimeout) {
      throw new SandkeepError(
        "invalid",
        `Invalid request: the timeout would be ${timeout} ms, more than ${maxTimeout} ms.`,
      );
    }
    const expiresAt = (session.startedAt ?? session.requestedAt) + timeout;
    const changes = { timeout, expiresAt, updatedAt: this.#context.now() };
    const extended = await this.#context.store.updateSession(id, ["running"], changes);
    if (!extended) throw notRunning(await this.get(caller, id));
    this.#options.expiryChanged();
    return extended;
  }

  /** at once, for this session only */
  async setNetworkPolicy(caller: Caller, id: string, policy: NetworkPolicy): Promise<Session> {
    const { machine } = await this.running(caller, id);
    await machine.setNetwork(networkMode(policy));
    const changes = { networkPolicy: sealPolicy(policy, this.#context.seal.seal), updatedAt: this.#context.now() };
    const changed = await this.#context.store.updateSession(id, ["running"], changes);
    if (!changed) throw notRunning(await this.get(caller, id));
    return changed;
  }

  /** captures its file system and ends it */
  async snapshot(
    caller: Caller,
    id: string,
    options: { expiration?: number | undefined } = {},
  ): Promise<{ snapshot: Snapshot; session: Session }> {
    const { session } = await this.running(caller, id);
    return this.#options.endings.capture(session, options.expiration);
  }
}
