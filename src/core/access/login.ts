/**
 * Login of a command line by a device code: it shows a short code, a person with a key approves the code, and the
 * command line receives that key when it polls. Codes live in memory, so a restart of the daemon discards them.
 */

import type { Context } from "../context.ts";
import { SandkeepError } from "../model/errors.ts";

export interface DeviceLogin {
  deviceCode: string;
  /** what the person types or confirms */
  userCode: string;
  /** seconds */
  expiresIn: number;
  /** seconds between two polls */
  interval: number;
}

export type LoginAnswer = "pending" | "slow-down" | "denied" | "expired" | { key: string };

interface Pending {
  /** the client's address */
  address: string;
  userCode: string;
  expiresAt: number;
  polledAt: number;
  answer: "pending" | "denied" | { key: string };
}

const lifetime = 10 * 60;
const interval = 1;
/** most open logins: for each address, and in total */
const mostOfAddress = 10;
const most = 1000;

export class DeviceLogins {
  readonly #context: Pick<Context, "ids" | "now">;
  readonly #pending = new Map<string, Pending>();

  constructor(context: Pick<Context, "ids" | "now">) {
    this.#context = context;
  }

  /** always succeeds: an address with too many open logins loses its oldest one */
  begin(address: string): DeviceLogin {
    this.#sweep();
    if (this.#of(address).length >= mostOfAddress) this.#evictFrom(address);
    if (this.#pending.size >= most) this.#evictFrom(this.#busiestAddress());
    const { ids, now } = this.#context;
    const deviceCode = ids.apiKey().secret;
    const letters = ids.subdomain().slice(-8).toUpperCase();
    const userCode = `${letters.slice(0, 4)}-${letters.slice(4)}`;
    const expiresAt = now() + lifetime * 1000;
    this.#pending.set(deviceCode, { address, userCode, expiresAt, polledAt: 0, answer: "pending" });
    return { deviceCode, userCode, expiresIn: lifetime, interval };
  }

  /** returns the final answer only once */
  poll(deviceCode: string): LoginAnswer {
    const login = this.#pending.get(deviceCode);
    const now = this.#context.now();
    if (!login || login.expiresAt < now) return "expired";
    const tooSoon = now - login.polledAt < interval * 500;
    login.polledAt = now;
    if (login.answer === "pending") return tooSoon ? "slow-down" : "pending";
    this.#pending.delete(deviceCode);
    return login.answer;
  }

  approve(userCode: string, key: string): void {
    this.#find(userCode).answer = { key };
  }

  deny(userCode: string): void {
    this.#find(userCode).answer = "denied";
  }

  /** codes of an address, oldest first */
  #of(address: string): string[] {
    return [...this.#pending].filter(([, login]) => login.address === address).map(([code]) => code);
  }

  #evictFrom(address: string): void {
    const [oldest] = this.#of(address);
    if (oldest !== undefined) this.#pending.delete(oldest);
  }

  /** the address with the most open logins; of several, the one that began first */
  #busiestAddress(): string {
    const counts = new Map<string, number>();
    for (const { address } of this.#pending.values()) counts.set(address, (counts.get(address) ?? 0) + 1);
    const [first = ""] = [...counts].toSorted(([, one], [, other]) => other - one).map(([address]) => address);
    return first;
  }

  #find(userCode: string): Pending {
    this.#sweep();
    const login = [...this.#pending.values()].find((candidate) => candidate.userCode === userCode.toUpperCase());
    if (login?.answer === "pending") return login;
    throw new SandkeepError("not-found", `There is no login with the code "${userCode}", or it has expired`);
  }

  #sweep(): void {
    const now = this.#context.now();
    for (const [code, login] of this.#pending) if (login.expiresAt < now) this.#pending.delete(code);
  }
}
