/** Serves netd's requests: connects programs to the outside, judges flows, resolves names, and closes all of a sandbox. */

import type { Socket } from "node:net";
import type { CustomNetwork } from "../core/network/network-policy.ts";
import type { EgressSettings } from "../core/ports/egress-settings.ts";
import type { NetdMessage } from "../protocols/netd-channel.ts";
import { halfOpen, type Replies } from "./channel.ts";
import { serveConnection } from "./connection/connection.ts";
import { isResolver, serveDns } from "./dns/dns.ts";
import { answerQuestion } from "./dns/questions.ts";
import { newTurns } from "./fairness/turns.ts";
import { type Actors, attributed, beforeRefusal, type Search } from "./log/actors.ts";
import type { LogError } from "./log/error-log.ts";
import { decisionOf } from "./log/kernel-refusal.ts";
import type { EgressEvent, EgressLog } from "./log/log.ts";
import { type Machine, Machines } from "./machines.ts";
import { judge, outcomeOf } from "./policy/policy.ts";
import type { Settings } from "./settings.ts";

export interface EgressOptions {
  settings: Settings;
  replies: Replies;
  log: EgressLog;
  now: () => number;
  actors: Actors;
  logError: LogError;
}

type Tcp = Extract<NetdMessage, { kind: "tcp" }>;
type Udp = Extract<NetdMessage, { kind: "udp" }>;
type Dns = Extract<NetdMessage, { kind: "dns" }>;

/** how long to wait for netd's answer before an order is sent again, in ms */
const resendEvery = 100;
/** how often a request for refused packets is sent: a reader of the log does not wait for longer */
const mostSends = 5;
/** about what a connection, a flow of datagrams and a question for a name take, in µs */
const costs = { connection: 300, flow: 100, question: 300 };
/** stands for every machine in an order to netd */
const everyMachine = "*";
/** how often the bytes of what is open are counted, in ms */
const meterEvery = 1_000;

export class Egress {
  readonly #options: EgressOptions;
  readonly #machines: Machines;
  /** orders that netd has not confirmed yet, by token */
  readonly #orders = new Map<number, () => void>();
  #nextToken = 1;

  constructor(options: EgressOptions) {
    this.#options = options;
    this.#machines = new Machines(options.now, newTurns(options.now));
    setInterval(() => this.#meter(), meterEvery).unref();
  }

  get actors(): Actors {
    return this.#options.actors;
  }

  handle(request: NetdMessage, socket: Socket | undefined): void {
    const { replies, log } = this.#options;
    if (request.kind === "end") {
      this.#machines.end(request.id);
    } else if (request.kind === "rechecked" || request.kind === "told") {
      this.#orders.get(request.id)?.();
    } else if (request.kind === "refused") {
      const name = this.#machines.known(request.id)?.names.nameOf(request.address);
      log.decided({ machine: request.machine, ...decisionOf(request, this.#options.settings.addresses, name) });
    } else if (request.kind === "unseen") {
      log.unseen(request.machine, request.count);
    } else if (request.kind === "holder") {
      this.actors.found(request.id, request);
    } else if (request.kind === "udp") {
      void this.#guarded(this.#judge(request));
    } else if (request.kind === "flow") {
      const { names } = this.#machines.of(request);
      const { machine, address, sent, received } = request;
      log.moved(machine, names.nameOf(address) ?? address, { bytesIn: received, bytesOut: sent }, true);
    } else if (request.kind === "dns") {
      void this.#guarded(this.#resolve(request));
    } else if (socket) {
      void this.#guarded(this.#join(request, halfOpen(socket)));
    } else {
      // The connection was lost in the channel; netd still counts it.
      replies.taken(request.id);
      replies.closed(request.id);
    }
  }

  /** resolves when the settings are in force, for everything that is open too; throws where they cannot be used */
  async configure(settings: EgressSettings): Promise<void> {
    this.#options.settings.use(settings);
    for (const machine of this.#machines.all()) for (const open of machine.open) open.recheck();
    await this.#done((token) => this.#options.replies.recheck(everyMachine, token));
  }

  /** resolves when the policy is in force, for everything that is open too */
  async setPolicy(machine: string, network: CustomNetwork, { fresh }: { fresh: boolean }): Promise<void> {
    this.#machines.set(machine, network);
    if (!fresh) await this.#done((token) => this.#options.replies.recheck(machine, token));
  }

  dropPolicy(machine: string): void {
    this.#machines.drop(machine);
  }

  /** drops the policies of all other machines */
  keepPolicies(machines: string[]): void {
    this.#machines.keep(machines);
  }

  /** resolves when all decisions and bytes of a machine are in its log */
  async flush(machine: string): Promise<void> {
    for (const known of this.#machines.all()) {
      if (known.name === machine) for (const open of known.open) open.meter();
    }
    // The kernel refuses packets without waiting for this process.
    await this.#done((token) => this.#options.replies.tell(machine, token), mostSends);
    await this.actors.settled(machine);
    await this.#options.log.flush(machine);
  }

  /** resolves when netd has confirmed the order, or it was sent `most` times */
  async #done(tell: (token: number) => void, most = Number.POSITIVE_INFINITY): Promise<void> {
    const token = this.#nextToken++;
    let times = 0;
    let again: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      const attempt = () => (times++ < most ? tell(token) : resolve());
      this.#orders.set(token, resolve);
      // netd's answer is lost if the channel is full; doing it twice does no harm.
      again = setInterval(attempt, resendEvery);
      attempt();
    });
    clearInterval(again);
    this.#orders.delete(token);
  }

  async #join(request: Tcp, inside: Socket): Promise<void> {
    const machine = this.#machines.of(request);
    const search = this.actors.find(machine.name, request.holder);
    // A program may reset it at any time, also while it is not read.
    inside.on("error", () => {});
    try {
      // Also if it is gone by then: connecting and leaving must cost something too.
      await machine.share.turn(costs.connection);
      this.#options.replies.taken(request.id);
      if (isResolver(request)) {
        await serveDns(inside, (packet) => this.#answer(packet, "tcp", machine, search), machine.signal);
      } else {
        await serveConnection(inside, request, machine, { ...this.#options, search });
      }
    } finally {
      inside.destroy();
      this.#options.replies.closed(request.id);
    }
  }

  async #judge(request: Udp): Promise<void> {
    const { replies, log, settings } = this.#options;
    const { address, port, flow } = request;
    const machine = this.#machines.of(request);
    const search = this.actors.find(machine.name, request.holder);
    await machine.share.turn(costs.flow);
    await machine.ready();
    const verdictNow = () => judge(machine.policy(), { protocol: "udp", address, port }, settings.addresses);
    if (!verdictNow().allowed) await beforeRefusal(search);
    const verdict = verdictNow();
    replies[verdict.allowed ? "allow" : "deny"](flow);
    const name = machine.names.nameOf(address);
    const event: EgressEvent = {
      machine: machine.name,
      protocol: "udp",
      ...(name && { name }),
      address,
      port,
      ...outcomeOf(verdict),
    };
    attributed(log, search).decided(event);
  }

  async #resolve(request: Dns): Promise<void> {
    const { replies } = this.#options;
    const machine = this.#machines.of(request);
    const search = this.actors.find(machine.name, request.holder);
    const answer = await this.#answer(request.packet, "udp", machine, search);
    // netd counts unanswered queries, of which a machine may have a limited number.
    if (answer) replies.answer(request.flow, answer);
    else replies.unanswered(request.flow);
  }

  async #answer(
    packet: Buffer,
    transport: "udp" | "tcp",
    machine: Machine,
    search: Search,
  ): Promise<Buffer | undefined> {
    const { settings, log } = this.#options;
    let refused = false;
    await machine.share.turn(costs.question);
    await machine.ready();
    try {
      const answer = await answerQuestion(packet, transport, machine, {
        ...settings,
        signal: machine.signal,
        decided: ({ name, type }, verdict, failure) => {
          refused = !verdict.allowed;
          const failed = failure !== undefined && { failure };
          const event: EgressEvent = {
            machine: machine.name,
            protocol: "dns",
            name,
            type,
            ...outcomeOf(verdict),
            ...failed,
          };
          attributed(log, search).decided(event);
        },
      });
      if (refused) await beforeRefusal(search);
      return answer;
    } catch (error) {
      // A malformed query or answer concerns only its sender.
      this.#options.logError("Cannot answer a question of a sandbox:", error);
      return undefined;
    }
  }

  #meter(): void {
    for (const machine of this.#machines.all()) for (const open of machine.open) open.meter();
  }

  async #guarded(task: Promise<void>): Promise<void> {
    try {
      await task;
    } catch (error) {
      this.#options.logError("Cannot serve a sandbox:", error);
    }
  }
}
