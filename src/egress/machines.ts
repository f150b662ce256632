/** The sandboxes as the egress process knows them: policy, resolved names and open connections of each. */

import { setMaxListeners } from "node:events";
import type { AuthoritySpec, CustomNetwork } from "../core/network/network-policy.ts";
import type { Sender } from "../protocols/netd-channel.ts";
import type { Asker } from "./dns/questions.ts";
import { type Allowance, newAllowance } from "./fairness/allowance.ts";
import type { TimeShare, Turns } from "./fairness/turns.ts";
import type { Authority } from "./intercept/authority.ts";
import { newNames } from "./policy/names.ts";
import { customPolicy, type Policy } from "./policy/policy.ts";
import { newRuledAddresses, type RuledAddresses } from "./policy/ruled-addresses.ts";

/** Something open that a change of policy may end. */
export interface OpenConnection {
  /** ends it unless it is still allowed, in the same way as before */
  recheck(): void;
  /** logs the bytes since the last call */
  meter(): void;
}

export interface Machine extends Asker {
  name: string;
  open: Set<OpenConnection>;
  /** addresses of hosts with rules, where its policy allows everything else */
  ruled: RuledAddresses;
  /** connections to the outside for those whose TLS is opened: one of a program may lead to many */
  outside: number;
  /** its share of this process's time */
  share: TimeShare;
  /** how often it may do things that cost us much and it nothing, such as cancelling requests */
  costlyFrames: Allowance;
  /** aborts when all its connections must be closed */
  signal: AbortSignal;
  /** signs certificates for hosts whose TLS is opened; undefined if its policy has no authority */
  authority(): Promise<Authority | undefined>;
  /** waits a moment for a policy that is not known yet; resolves in any case */
  ready(): Promise<void>;
}

/** how long a program waits for a missing policy, in ms: the daemon sends all policies to a new process */
const patience = 2_000;
/** questions to the resolver; of those that can carry much in either direction there are few */
const questions = { atOnce: 500, perSecond: 50 };
const texts = { atOnce: 20, perSecond: 2 };
/** cancelled requests, and control frames of HTTP/2 */
const costlyFrames = { atOnce: 2_000, perSecond: 200 };

interface Given {
  policy: Policy;
  spec?: AuthoritySpec;
  authority?: Promise<Authority>;
}

interface Known extends Machine {
  abort: AbortController;
  custom: boolean;
}

export class Machines {
  readonly #now: () => number;
  readonly #turns: Turns;
  readonly #given = new Map<string, Given>();
  readonly #byId = new Map<number, Known>();
  readonly #waiting = new Set<() => void>();

  constructor(now: () => number, turns: Turns) {
    this.#now = now;
    this.#turns = turns;
  }

  /** the machine that a request came from */
  of(sender: Sender): Machine {
    const machine = this.#byId.get(sender.id) ?? this.#meet(sender);
    machine.custom = sender.custom;
    return machine;
  }

  /** a machine that has sent a request before, by netd's number */
  known(id: number): Machine | undefined {
    return this.#byId.get(id);
  }

  all(): Iterable<Machine> {
    return this.#byId.values();
  }

  /** it has ended, or was cut off */
  end(id: number): void {
    const machine = this.#byId.get(id);
    this.#byId.delete(id);
    machine?.abort.abort();
    machine?.share.end();
  }

  /** in force from now on, for what is open too */
  set(name: string, network: CustomNetwork): void {
    this.#given.set(name, { policy: customPolicy(network), ...(network.authority && { spec: network.authority }) });
    this.#recheck(name);
    for (const wake of this.#waiting) wake();
  }

  /** it has no policy of its own any more */
  drop(name: string): void {
    this.#given.delete(name);
    for (const machine of this.#named(name)) machine.custom = false;
  }

  /** drops the policies of all other machines */
  keep(names: string[]): void {
    for (const name of this.#given.keys()) if (!names.includes(name)) this.#given.delete(name);
  }

  #recheck(name: string): void {
    for (const machine of this.#named(name)) for (const open of machine.open) open.recheck();
  }

  #named(name: string): Known[] {
    return [...this.#byId.values()].filter((machine) => machine.name === name);
  }

  #meet({ id, machine: name, custom }: Sender): Known {
    const abort = new AbortController();
    // as many listen to it as a machine may have connections
    setMaxListeners(0, abort.signal);
    const machine: Known = {
      name,
      custom,
      abort,
      signal: abort.signal,
      open: new Set(),
      outside: 0,
      share: this.#turns.share(),
      costlyFrames: newAllowance({ ...costlyFrames, now: this.#now }),
      names: newNames(this.#now),
      ruled: newRuledAddresses(this.#now),
      questions: newAllowance({ ...questions, now: this.#now }),
      texts: newAllowance({ ...texts, now: this.#now }),
      policy: () => this.#given.get(name)?.policy ?? { kind: machine.custom ? "unknown" : "open" },
      authority: () => this.#authority(name),
      ready: () => this.#ready(machine),
    };
    this.#byId.set(id, machine);
    return machine;
  }

  /** made when it is first needed, as is the code for it: most machines never need either */
  async #authority(name: string): Promise<Authority | undefined> {
    const given = this.#given.get(name);
    if (!given?.spec) return undefined;
    const { spec } = given;
    given.authority ??= import("./intercept/authority.ts").then(({ openAuthority }) => openAuthority(spec));
    return given.authority;
  }

  async #ready(machine: Machine): Promise<void> {
    const deadline = this.#now() + patience;
    while (machine.policy().kind === "unknown" && !machine.signal.aborted) {
      const left = deadline - this.#now();
      if (left <= 0) return;
      await new Promise<void>((resolve) => {
        const wake = () => {
          clearTimeout(timer);
          this.#waiting.delete(wake);
          resolve();
        };
        const timer = setTimeout(wake, left);
        this.#waiting.add(wake);
      });
    }
  }
}
