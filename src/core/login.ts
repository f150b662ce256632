/**
 * Logging a command line in by a device code: it shows a short code, a person with a key approves it, and the command
 * line, which has been asking meanwhile, is given that key. Codes live in memory: after a restart one begins again.
 */

import type { Context } from "./context.ts";
import { SandkeepError } from "./errors.ts";

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
  userCode: string;
  expiresAt: number;
  polledAt: number;
  answer: "pending" | "denied" | { key: string };
}

const lifetime = 10 * 60;
const interval = 1;
const most = 1000;

export class DeviceLogins {
  readonly #context: Pick<Context, "ids" | "now">;
  readonly #pending = new Map<string, Pending>();

  constructor(context: Pick<Context, "ids" | "now">) {
    this.#context = context;
  }

  begin(): DeviceLogin {
    this.#sweep();
    if (this.#pending.size >= most) throw new SandkeepError("limit", "Cannot begin a login: too many are open");
    const { ids, now } = this.#context;
    const deviceCode = ids.apiKey().secret;
    const letters = ids.subdomain().slice(-8).toUpperCase();
    const userCode = `${letters.slice(0, 4)}-${letters.slice(4)}`;
    this.#pending.set(deviceCode, { userCode, expiresAt: now() + lifetime * 1000, polledAt: 0, answer: "pending" });
    return { deviceCode, userCode, expiresIn: lifetime, interval };
  }

  /** an answer is given once */
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
