/** Does what netd asks: joins connections to the outside, judges flows, resolves names; and closes a sandbox's all at once. */

import { setMaxListeners } from "node:events";
import type { Socket } from "node:net";
import { type Destination, halfOpen, type Replies, type Request } from "./channel.ts";
import { isResolver, serveDns } from "./dns.ts";
import type { Policy } from "./policy.ts";
import { resolve } from "./resolvers.ts";
import { relay } from "./tcp.ts";

export interface EgressOptions {
  policy: Policy;
  replies: Replies;
  /** the resolvers to ask, as they are now */
  resolvers: () => Destination[];
}

type Tcp = Extract<Request, { kind: "tcp" }>;
type Dns = Extract<Request, { kind: "dns" }>;

export class Egress {
  readonly #options: EgressOptions;
  /** what is under way for each machine that has something under way */
  readonly #machines = new Map<number, { abort: AbortController; tasks: number }>();

  constructor(options: EgressOptions) {
    this.#options = options;
  }

  handle(request: Request, socket: Socket | undefined): void {
    const { policy, replies } = this.#options;
    if (request.kind === "end") {
      this.#machines.get(request.id)?.abort.abort();
      this.#machines.delete(request.id);
    } else if (request.kind === "udp") {
      const decision = policy.decide(request, { protocol: "udp", destination: request });
      replies[decision.allowed ? "allow" : "deny"](request.flow);
    } else if (request.kind === "dns") {
      void this.#during(request.id, (signal) => this.#resolve(request, signal));
    } else if (socket) {
      void this.#during(request.id, (signal) => this.#join(request, halfOpen(socket), signal));
    } else {
      // The connection was lost on its way; netd still counts it.
      replies.closed(request.id);
    }
  }

  async #join(request: Tcp, inside: Socket, signal: AbortSignal): Promise<void> {
    const { policy, replies, resolvers } = this.#options;
    try {
      if (isResolver(request)) {
        const allowed = (packet: Buffer) => policy.decide(request, { protocol: "dns", packet }).allowed;
        await serveDns(inside, resolvers, allowed, signal);
      } else if (policy.decide(request, { protocol: "tcp", destination: request }).allowed) {
        await relay(inside, request, signal);
      } else {
        inside.on("error", () => {});
        inside.resetAndDestroy();
      }
    } finally {
      replies.closed(request.id);
    }
  }

  async #resolve(request: Dns, signal: AbortSignal): Promise<void> {
    const { policy, replies, resolvers } = this.#options;
    const { flow, packet } = request;
    const allowed = policy.decide(request, { protocol: "dns", packet }).allowed;
    const answer = allowed ? await resolve(packet, { resolvers: resolvers(), transport: "udp", signal }) : undefined;
    if (answer) replies.answer(flow, answer);
    else replies.unanswered(flow);
  }

  /** runs a task that `end` aborts together with all others of its machine */
  async #during(id: number, task: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const machine = this.#machines.get(id) ?? { abort: newAbort(), tasks: 0 };
    this.#machines.set(id, machine);
    machine.tasks++;
    try {
      await task(machine.abort.signal);
    } catch (error) {
      console.error("Cannot serve a sandbox:", error);
    } finally {
      machine.tasks--;
      if (machine.tasks === 0 && this.#machines.get(id) === machine) this.#machines.delete(id);
    }
  }
}

/** one that as many tasks may listen to as a machine may have connections */
function newAbort(): AbortController {
  const abort = new AbortController();
  setMaxListeners(0, abort.signal);
  return abort;
}
