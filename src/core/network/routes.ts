/** Inbound routes: labels that reach ports of sandboxes from outside. */

import type { Duplex } from "node:stream";
import { OrderedWork } from "../../base/concurrency/ordered-work.ts";
import type { Context } from "../context.ts";
import { isSandkeepError, notFound, SandkeepError } from "../model/errors.ts";
import type { Ids } from "../model/ids.ts";
import type { Owner, Route, Sandbox, Session, SessionState } from "../model/sandbox.ts";
import { idOfLabel, labelOf } from "../model/sandbox-label.ts";
import { isAsleep } from "../sessions/states.ts";

/** a port with a label keeps it */
export function routesFor(ids: Pick<Ids, "subdomain">, ports: number[], before: Route[]): Route[] {
  return [...new Set(ports)].map(
    (port) => before.find((route) => route.port === port) ?? { port, subdomain: ids.subdomain() },
  );
}

/** the one port of every session that needs no route: clients with a server of their own let it listen here */
const systemPort = 26661;

/** the system port's address while the session runs */
export function systemRoute({ shortId }: Pick<Session, "shortId">): Route {
  return { port: systemPort, subdomain: `${systemPort}-${shortId}` };
}

/** A connection to a port of a sandbox that can be opened. */
export interface PortConnection {
  open(): Promise<Duplex>;
  /** what is true of the port */
  port?: {
    /** the sandbox's label */
    sandbox: string;
    /** whether the client must show the sandbox's token first */
    isPrivate: boolean;
    /** the host name that requests carry when they arrive, if not the client's */
    host: string | undefined;
  };
}

interface Place {
  port: number;
  sessionId: string;
  state: SessionState;
  sandbox: Sandbox;
  /** whether the port was named by its number and the sandbox's own label */
  isNumbered?: boolean;
}

export class Routes {
  readonly #context: Context;
  /** changes of routes, by sandbox */
  readonly #changes = new OrderedWork();

  /** resumes a stopped sandbox; returns the id of its session */
  readonly #wake: (sandbox: Sandbox) => Promise<string>;

  constructor(context: Context, wake: (sandbox: Sandbox) => Promise<string>) {
    this.#context = context;
    this.#wake = wake;
  }

  /** gives a port a label and opens it, unless `closed`; a port with a label keeps it */
  expose(
    owner: Owner,
    name: string,
    port: number,
    { most, closed = false }: { most: number; closed?: boolean },
  ): Promise<Route> {
    return this.#inTurn(owner, name, () => this.#expose(owner, name, { port, closed }, most));
  }

  /** removes a label */
  async withdraw(owner: Owner, subdomain: string): Promise<void> {
    const { name } = (await this.find(owner, subdomain)).sandbox;
    await this.#inTurn(owner, name, async () => {
      const { sandbox } = await this.find(owner, subdomain);
      const routes = sandbox.routes.filter((route) => route.subdomain !== subdomain);
      await this.#context.store.updateSandbox(sandbox.id, { routes, updatedAt: this.#context.now() });
    });
  }

  /** removes the label of a port; succeeds if it has none */
  close(owner: Owner, name: string, port: number): Promise<void> {
    return this.#inTurn(owner, name, async () => {
      const { store, now } = this.#context;
      const sandbox = await store.findSandbox(owner.projectId, name);
      if (!sandbox) throw notFound("sandbox", name);
      const routes = sandbox.routes.filter((route) => route.port !== port);
      await store.updateSandbox(sandbox.id, { routes, updatedAt: now() });
    });
  }

  /** the sandbox and route of a label */
  async find(owner: Owner, subdomain: string): Promise<{ sandbox: Sandbox; route: Route }> {
    const sandbox = await this.#context.store.findSandboxByRoute(subdomain);
    const route = sandbox?.routes.find((candidate) => candidate.subdomain === subdomain);
    if (sandbox?.projectId === owner.projectId && route) return { sandbox, route };
    throw new SandkeepError("not-found", `No sandbox has the address "${subdomain}"`);
  }

  /** whether a sandbox runs, for outside callers that know only its id */
  async isRunning(sandboxId: string): Promise<boolean> {
    const sandbox = await this.#context.store.getSandbox(sandboxId);
    return sandbox !== undefined && !isAsleep(sandbox.state);
  }

  #inTurn<T>(owner: Owner, name: string, work: () => Promise<T>): Promise<T> {
    return this.#changes.run(`${owner.projectId} ${name}`, work);
  }

  /**
   * the target of a label; throws `not-found` if no sandbox has it, `gone` if its session is over. open() throws
   * `conflict` if nothing listens on the port
   */
  async connect(subdomain: string): Promise<PortConnection> {
    const place = (await this.#numbered(subdomain)) ?? (await this.#behind(subdomain));
    const { port, sessionId, state, sandbox, isNumbered = false } = place;
    const { isPrivate = false, ...ingress } = sandbox.ingress ?? {};
    const wakes = isNumbered && ingress.wakes === true;
    const host = isNumbered ? ingress.host?.replaceAll(/\$\{PORT\}/g, String(port)) : undefined;
    const machineOf = (id: string) => this.#context.runtime.machine(id);
    const machine = isAsleep(state) ? undefined : machineOf(sessionId);
    const stopped = () => new SandkeepError("gone", `The sandbox behind "${subdomain}" has stopped`);
    if (!machine && !wakes) throw stopped();
    return {
      port: { sandbox: labelOf(sandbox.id), isPrivate, host },
      open: async () => {
        // It may have been paused since.
        const there = machine?.isPaused ? undefined : machine;
        if (!there && !wakes) throw stopped();
        const awake = there ?? machineOf(await this.#wake(sandbox));
        if (!awake) throw stopped();
        try {
          return await awake.connect(port);
        } catch (cause) {
          if (isSandkeepError(cause, "gone")) throw cause;
          if (isSandkeepError(cause, "conflict", "session")) throw stopped();
          throw new SandkeepError("conflict", `Nothing in the sandbox listens on port ${port}`, { cause });
        }
      },
    };
  }

  /** by port number and sandbox label: any port if the sandbox allows it, else only one with a route */
  async #numbered(subdomain: string): Promise<Place | undefined> {
    // One port has one name: no zeros before its number.
    const [, digits, label] = /^([1-9]\d{0,4})-(i[a-z0-9]+)$/.exec(subdomain) ?? [];
    const id = label === undefined ? undefined : idOfLabel(label);
    const known = id === undefined ? undefined : await this.#context.store.getSandbox(id);
    // A deleted sandbox no longer has its name.
    const sandbox = known && (await this.#context.store.findSandbox(known.projectId, known.name));
    const port = Number(digits);
    if (sandbox?.id !== id || !sandbox || port > 65_535) return undefined;
    const isOpen = sandbox.routes.some((route) => route.port === port && !route.closed);
    if (!sandbox.ingress?.anyPort && !isOpen) return undefined;
    return { port, sessionId: sandbox.currentSessionId, state: sandbox.state, sandbox, isNumbered: true };
  }

  async #behind(subdomain: string): Promise<Place> {
    const { store } = this.#context;
    const shortId = /^(\d+)-(s[a-z0-9]+)$/.exec(subdomain)?.[2];
    const session = shortId === undefined ? undefined : await store.findSessionByShortId(shortId);
    const owner = session && (await store.getSandbox(session.sandboxId));
    if (session && owner && systemRoute(session).subdomain === subdomain) {
      return { port: systemPort, sessionId: session.id, state: session.state, sandbox: owner };
    }
    const sandbox = await store.findSandboxByRoute(subdomain);
    const route = sandbox?.routes.find((candidate) => candidate.subdomain === subdomain);
    if (!sandbox || !route || route.closed) {
      throw new SandkeepError("not-found", `No sandbox has the address "${subdomain}"`);
    }
    return { port: route.port, sessionId: sandbox.currentSessionId, state: sandbox.state, sandbox };
  }

  async #expose(owner: Owner, name: string, { port, closed }: { port: number; closed: boolean }, most: number) {
    const { store, ids, now } = this.#context;
    const sandbox = await store.findSandbox(owner.projectId, name);
    if (!sandbox) throw notFound("sandbox", name);
    const there = sandbox.routes.find((route) => route.port === port);
    if (there && (there.closed ?? false) === closed) return there;
    if (!there && sandbox.routes.length >= most) {
      throw new SandkeepError("limit", `Cannot expose port ${port}: sandbox "${name}" has ${most} ports already`);
    }
    const route: Route = { port, subdomain: there?.subdomain ?? ids.subdomain(), ...(closed && { closed }) };
    const others = sandbox.routes.filter((other) => other.port !== port);
    await store.updateSandbox(sandbox.id, { routes: [...others, route], updatedAt: now() });
    return route;
  }
}
