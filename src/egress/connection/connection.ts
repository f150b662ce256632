/**
 * One connection that a program has made, from its first packet to its end:
 *
 *   address decides ──allowed──────────────────────────────▶ relayed
 *        │   └─────denied──▶ its first bytes are read ──────▶ refused, in words it understands
 *        └─unknown─▶ its first bytes are read: TLS with a name
 *                        └─▶ name allowed, and leads to the address ──▶ relayed; or, where rules are, intercepted
 *                        └─▶ anything else ─────────────────▶ refused
 *
 * Every outcome is decided again when the policy changes.
 */

import { isIP, type Socket } from "node:net";
import { messageOf } from "../../core/model/errors.ts";
import { bytesOf } from "../../core/network/cidr.ts";
import { hostName } from "../../core/network/network-policy.ts";
import type { EgressProxy } from "../../core/ports/egress-settings.ts";
import type { EgressCause } from "../../protocols/egress-log.ts";
import type { Destination } from "../../protocols/netd-channel.ts";
import { addressesOf } from "../dns/questions.ts";
import { attributed, beforeRefusal, type Search } from "../log/actors.ts";
import type { EgressEvent, EgressLog } from "../log/log.ts";
import type { Machine, OpenConnection } from "../machines.ts";
import {
  type Attempt,
  hasRulesFor,
  isOpenBesidesRules,
  judge,
  judgeAddress,
  judgeName,
  outcomeOf,
  type Verdict,
} from "../policy/policy.ts";
import { namesLeadingTo } from "../policy/ruled-addresses.ts";
import type { Settings } from "../settings.ts";
import { type Opening, openingIn, readOpening } from "./opening.ts";
import { protocolOf, requestOf } from "./opening-log.ts";
import { dialThrough, type Target } from "./proxy.ts";
import { refuse } from "./refusal.ts";
import { dial, relay } from "./tcp.ts";

export interface ConnectionOptions {
  settings: Settings;
  log: EgressLog;
  /** search for the process that made the connection */
  search: Search;
}

/** how long to wait for the first bytes of a program that will be refused in any case, in ms */
const shortPatience = 1_000;

/** connections that a machine may have open to hosts with rules */
const mostOutside = 1024;
/** bytes under way over connections whose TLS is opened: of one, and of all of a machine, about */
const mostRoom = 4 << 20;
const leastRoom = 256 << 10;
const machineRoom = 64 << 20;

/** about what it takes to judge and relay a connection with TLS, and what it takes besides to open both sides, in µs */
const tlsCost = 700;
const openingCost = 3_000;

/** why a connection to a host with rules failed */
const unopened: EgressCause = { kind: "interception" };

/** settles when the connection is closed */
export async function serveConnection(
  inside: Socket,
  destination: Destination,
  machine: Machine,
  options: ConnectionOptions,
): Promise<void> {
  await new Connection(inside, destination, machine, options).serve();
}

let intercepting: Promise<typeof import("../intercept/intercept.ts")> | undefined;

class Connection implements OpenConnection {
  readonly #inside: Socket;
  readonly #attempt: Attempt;
  readonly #machine: Machine;
  readonly #options: ConnectionOptions;
  readonly #log: Pick<EgressLog, "decided" | "ended">;
  readonly #abort = new AbortController();
  readonly #signal: AbortSignal;
  /** the verdict that allowed it; an interception continues under the same rules or not at all */
  #granted: Extract<Verdict, { allowed: true }> | undefined;
  /** what it begins with, where that was read before it was allowed */
  #opening: Opening | undefined;
  /** certificate authorities to trust for the host, where its TLS is opened */
  #roots: readonly string[] | undefined;
  /** the proxy it went through, once it did */
  #way: { proxy: EgressProxy | undefined; target: Target } | undefined;
  #metered = { bytesIn: 0, bytesOut: 0 };
  #begun = false;
  /** the event in the log, once it was written */
  #logged: EgressEvent | undefined;

  constructor(inside: Socket, { address, port }: Destination, machine: Machine, options: ConnectionOptions) {
    this.#inside = inside;
    this.#attempt = { protocol: "tcp", address, port };
    this.#machine = machine;
    this.#options = options;
    this.#log = attributed(options.log, options.search);
    this.#signal = AbortSignal.any([machine.signal, this.#abort.signal]);
  }

  recheck(): void {
    if (!this.#granted) return;
    const { settings } = this.#options;
    this.#attempt.leads = this.#leads();
    const verdict = judge(this.#machine.policy(), this.#attempt, settings.addresses);
    const believed = this.#roots === undefined || this.#roots === settings.roots();
    const sameWay = !this.#way || this.#way.proxy === settings.proxyFor(this.#way.target);
    if (verdict.allowed && sameRules(verdict.rules, this.#granted.rules) && believed && sameWay) {
      this.#granted = verdict;
      return;
    }
    const changed = !sameWay
      ? "the way out has changed"
      : believed
        ? "its rules have changed"
        : "the certificates that are believed have changed";
    const reason = verdict.allowed ? changed : verdict.reason;
    const cause: EgressCause = { kind: "cut-off" };
    this.#log.decided({ ...this.#event("tcp"), allowed: false, reason: `cut off: ${reason}`, cause });
    this.#abort.abort();
  }

  meter(): void {
    if (!this.#granted) return;
    this.#report();
    const { bytesRead, bytesWritten } = this.#inside;
    const [bytesIn, bytesOut] = [bytesWritten - this.#metered.bytesIn, bytesRead - this.#metered.bytesOut];
    if (bytesIn === 0 && bytesOut === 0 && this.#begun) return;
    const host = this.#hostName() ?? this.#attempt.address;
    this.#options.log.moved(this.#machine.name, host, { bytesIn, bytesOut }, !this.#begun);
    this.#metered = { bytesIn: bytesWritten, bytesOut: bytesRead };
    this.#begun = true;
  }

  async serve(): Promise<void> {
    this.#machine.open.add(this);
    try {
      await this.#machine.ready();
      const verdict = judgeAddress(this.#machine.policy(), this.#attempt, this.#options.settings.addresses);
      if (verdict?.allowed) await this.#relay(verdict);
      else await this.#serveOpening(verdict);
    } finally {
      this.meter();
      this.#machine.open.delete(this);
    }
  }

  async #serveOpening(known: Verdict | undefined): Promise<void> {
    const opening = await readOpening(this.#inside, this.#signal, known && shortPatience);
    if (opening.kind === "closed") {
      this.#inside.on("error", () => {}).resetAndDestroy();
      return;
    }
    if (opening.kind === "tls") await this.#machine.share.turn(tlsCost);
    const verdict = await this.#judgeOpening(opening);
    if (verdict.allowed && opening.kind === "tls") {
      if (verdict.rules && !opening.postgres) await this.#intercept(verdict, verdict.rules, opening.head);
      else await this.#relay(verdict, opening);
    } else if (verdict.allowed) {
      await this.#relay(verdict, opening);
    } else {
      this.#log.decided({ ...this.#event(protocolOf(opening)), ...requestOf(opening), ...outcomeOf(verdict) });
      await beforeRefusal(this.#options.search);
      await refuse(this.#inside, opening, this.#attempt, verdict);
    }
  }

  async #judgeOpening(opening: Opening): Promise<Verdict> {
    const attempt = this.#attempt;
    const { addresses } = this.#options.settings;
    const now = () => judge(this.#machine.policy(), attempt, addresses);
    if (opening.kind === "http") {
      attempt.instead = "plain HTTP is allowed by subnet only";
      attempt.claimed = opening.hosts.flatMap((host) => hostName(host.replace(/:\d*$/, "")) ?? []);
    }
    if (opening.kind === "other") {
      attempt.instead = opening.why;
      attempt.isSsh = opening.isSsh ?? false;
    }
    if (opening.kind !== "tls" || opening.name === undefined) {
      await this.#findLeads();
      return now();
    }
    const { name } = opening;
    // A name that is not allowed is not looked up either: the query would leak it.
    const byName = judgeAddress(this.#machine.policy(), attempt, addresses) ?? judgeName(this.#machine.policy(), name);
    if (!byName.allowed) return byName;
    const policy = this.#machine.policy();
    if (isOpenBesidesRules(policy) && !hasRulesFor(policy, name)) {
      const { names } = this.#machine;
      // Sites of a CDN share addresses, so one beside a host with rules is reached, but not under any name.
      if (!names.has(name, attempt.address) && (await this.#findLeads())) await this.#leadsHere(name);
      // Kept for a later policy, against which this connection would be checked.
      if (names.has(name, attempt.address)) attempt.name = name;
      return now();
    }
    if (!(await this.#leadsHere(name))) {
      const reason = `"${name}" does not lead to ${attempt.address}`;
      return {
        allowed: false,
        reason,
        cause: { kind: "wrong-name" },
        missing: { subnets: { allow: [`${attempt.address}/${isIP(attempt.address) === 6 ? 128 : 32}`] } },
      };
    }
    attempt.name = name;
    return now();
  }

  /** whether the name resolves to the address: in an earlier answer to the program, or now */
  async #leadsHere(name: string): Promise<boolean> {
    const { names } = this.#machine;
    const { address } = this.#attempt;
    if (names.has(name, address)) return true;
    if (!this.#machine.questions.take()) return false;
    const found = await addressesOf(name, { ...this.#options.settings, signal: this.#signal });
    if (!found.some((each) => String(bytesOf(each)) === String(bytesOf(address)))) return false;
    names.remember(name, address, 0);
    return true;
  }

  /** finds out whether the address is one of a host with rules, where everything else is allowed */
  async #findLeads(): Promise<boolean> {
    const policy = this.#machine.policy();
    if (policy.kind !== "custom" || !isOpenBesidesRules(policy)) return false;
    const { ruled, signal } = this.#machine;
    await ruled.learn(policy.ruledHosts, (name) => addressesOf(name, { ...this.#options.settings, signal }));
    const leads = this.#leads();
    this.#attempt.leads = leads;
    return leads.some((name) => hasRulesFor(policy, name));
  }

  /** the names that are known to lead to the address, where they matter */
  #leads(): string[] {
    const { address, name } = this.#attempt;
    return name === undefined && isOpenBesidesRules(this.#machine.policy())
      ? namesLeadingTo(address, this.#machine)
      : [];
  }

  async #relay(verdict: Extract<Verdict, { allowed: true }>, opening?: Opening): Promise<void> {
    this.#granted = verdict;
    this.#opening = opening;
    // Not read yet: the first bytes are for the log, and for a policy that may come later.
    const first = (bytes: Buffer) => {
      const found = openingIn(bytes, false);
      if (typeof found === "number") return true;
      const { names } = this.#machine;
      const name = found.kind === "tls" ? found.name : undefined;
      if (name !== undefined && names.has(name, this.#attempt.address)) this.#attempt.name = name;
      this.#report(found);
      return false;
    };
    await relay(this.#inside, this.#attempt, {
      share: this.#machine.share,
      signal: this.#signal,
      dial: (signal) => this.#dial({ ...this.#attempt, name: this.#hostName() }, signal),
      connected: () => void (opening && this.#report()),
      failed: (error) => this.#failed(messageOf(error)),
      ...(opening ? { head: opening.head, postgres: opening.kind === "tls" && opening.postgres } : { first }),
    });
    this.#ended();
  }

  async #intercept(
    verdict: Extract<Verdict, { allowed: true }>,
    rules: NonNullable<typeof verdict.rules>,
    head: Buffer,
  ): Promise<void> {
    const { name, policy, authority, share, costlyFrames } = this.#machine;
    await share.turn(openingCost);
    const opened = await authority();
    // Loaded on demand: on most hosts no TLS is ever opened.
    intercepting ??= import("../intercept/intercept.ts");
    const { intercept } = await intercepting;
    const host = this.#attempt.name;
    const inForce = policy();
    // The policy may have changed meanwhile; from here on recheck() handles changes.
    const now = judge(inForce, this.#attempt, this.#options.settings.addresses);
    if (!now.allowed || !sameRules(now.rules, rules)) {
      await this.#reset(now.allowed ? { allowed: false, reason: "its rules have changed", cause: unopened } : now);
      return;
    }
    if (inForce.kind !== "custom" || !opened || host === undefined) {
      const reason = "its rules cannot be carried out: the sandbox has no authority";
      await this.#reset({ allowed: false, reason, cause: unopened });
      return;
    }
    this.#granted = verdict;
    this.#roots = this.#options.settings.roots();
    this.#report({ kind: "tls", postgres: false, name: host, head });
    const signal = this.#signal;
    await intercept({
      inside: this.#inside,
      head,
      host,
      port: this.#attempt.port,
      rules,
      room: Math.floor(Math.min(mostRoom, Math.max(leastRoom, machineRoom / this.#machine.open.size))),
      costlyFrames,
      connect: () => this.#outside(() => this.#dial({ ...this.#attempt, name: host }, signal)),
      dial: (url) => this.#outside(() => this.#dialForward(url)),
      authority: opened,
      share,
      ...(inForce.network.identity && { identity: inForce.network.identity }),
      forwardHeaders: this.#options.settings.forwardHeaders(),
      seen: ({ method, path, status, rule, sent, received, problem }) => {
        const { sni: _, ...base } = this.#event("https");
        const request = {
          ...base,
          machine: name,
          method,
          path,
          ...(status !== undefined && { status }),
        };
        const by = rule === undefined ? verdict.rule : `${verdict.rule}, rule ${rule.index + 1}: ${rule.kind}`;
        const seen: EgressEvent = {
          ...request,
          allowed: problem === undefined,
          ...(problem && { reason: problem }),
          rule: by,
          cause: { kind: "request", ...(rule && { rule: rule.index + 1 }) },
        };
        this.#log.decided(seen);
        this.#log.ended(seen, { bytesIn: received, bytesOut: sent });
      },
      failed: (problem) =>
        this.#log.decided({ ...this.#event("tls"), allowed: false, reason: problem, cause: unopened }),
      signal,
      roots: this.#roots,
    });
    this.#ended();
  }

  async #outside(open: () => Promise<Socket>): Promise<Socket> {
    const machine = this.#machine;
    if (machine.outside >= mostOutside) {
      throw new Error(`the sandbox has ${mostOutside} connections open to hosts with rules already`);
    }
    machine.outside++;
    const socket = await open().catch((error) => {
      machine.outside--;
      throw error;
    });
    socket.once("close", () => machine.outside--);
    return socket;
  }

  /** a rule cannot forward to an address that the sandbox may never reach */
  async #dialForward(url: URL): Promise<Socket> {
    const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
    const { settings } = this.#options;
    const { addresses } = settings;
    const name = isIP(host) ? undefined : hostName(host);
    const found = name === undefined ? [host] : await addressesOf(name, { ...settings, signal: this.#signal });
    const address = found.find((each) => addresses.forbidden(each) === undefined);
    if (address === undefined) {
      throw new Error(
        `Cannot forward to ${url.origin}: ${found.length === 0 ? "no such host" : `${found[0]} is ${addresses.forbidden(found[0] ?? "")}`}`,
      );
    }
    const port = url.port === "" ? (url.protocol === "http:" ? 80 : 443) : Number(url.port);
    return this.#dial({ address, port, name }, this.#signal);
  }

  async #dial(target: Target, signal: AbortSignal): Promise<Socket> {
    const { settings } = this.#options;
    const proxy = settings.proxyFor(target);
    // Of several, as with forwarding rules, the last one stands for all: a change concerns all of them.
    this.#way = { proxy, target };
    return proxy ? dialThrough(proxy, target, { ...settings, signal }) : dial(target, signal);
  }

  /** the name it is known by, if there is one */
  #hostName(): string | undefined {
    return this.#attempt.name ?? this.#machine.names.nameOf(this.#attempt.address);
  }

  /** logs the decision once, with what is known about the connection by then */
  #report(opening = this.#opening, failure?: string): EgressEvent {
    if (this.#logged) return this.#logged;
    const { rule = "", cause } = this.#granted ?? {};
    const base = this.#event(opening ? protocolOf(opening) : "tcp");
    const failed = failure !== undefined && { failure };
    this.#logged = {
      ...base,
      ...(opening && requestOf(opening)),
      allowed: true,
      rule,
      ...(cause && { cause }),
      ...failed,
    };
    this.#log.decided(this.#logged);
    return this.#logged;
  }

  /** logs that it was allowed but the other side cannot be reached; a slow one is in the log already */
  #failed(failure: string): void {
    if (this.#logged) this.#log.decided({ ...this.#logged, failure });
    else this.#report(this.#opening, failure);
  }

  #ended(): void {
    const { bytesRead, bytesWritten } = this.#inside;
    this.#log.ended(this.#report(), { bytesIn: bytesWritten, bytesOut: bytesRead });
  }

  async #reset(verdict: Extract<Verdict, { allowed: false }>): Promise<void> {
    this.#log.decided({ ...this.#event("tcp"), ...outcomeOf(verdict) });
    await beforeRefusal(this.#options.search);
    this.#inside.on("error", () => {}).resetAndDestroy();
  }

  #event(protocol: EgressEvent["protocol"]): Omit<EgressEvent, "allowed"> {
    const { address, port, name: sni } = this.#attempt;
    const name = this.#hostName();
    const names = { ...(name !== undefined && { name }), ...(sni !== undefined && { sni }) };
    return { machine: this.#machine.name, protocol, ...names, address, port };
  }
}

function sameRules(one: Extract<Verdict, { allowed: true }>["rules"], other: typeof one): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}
