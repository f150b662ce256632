/**
 * The daemon's line to the egress process: gives it the operator's settings and the policies of machines, and gives it
 * all of them again whenever either of the two was restarted. It also answers which commands processes belong to. src/egress/control.ts is
 * the other end, and src/protocols/egress-control.ts describes the lines.
 */

import { connect, type Socket } from "node:net";
import { messageOf, SandkeepError } from "../../../core/model/errors.ts";
import type { CustomNetwork } from "../../../core/network/network-policy.ts";
import type { EgressSettings } from "../../../core/ports/egress-settings.ts";
import {
  type Ancestry,
  type EgressOrder,
  egressControlVersion,
  otherControlVersion,
  readEgressProcessLine,
  silentControlVersion,
  writeControlLine,
} from "../../../protocols/egress-control.ts";

export interface EgressLinkOptions {
  /** the egress process's unix socket */
  socket: string;
  /** in force before anything else is said; without them the process keeps its own */
  settings?: EgressSettings | undefined;
  /** called with refusals of the egress process for which no caller waits */
  logError: (error: unknown) => void;
  /** the command that a process inside a machine belongs to */
  commandOf: (machine: string, ancestry: Ancestry) => string | undefined;
  /** longest that a change may wait for the egress process, in ms */
  patience?: number;
}

interface Waiting {
  resolve(): void;
  reject(error: Error): void;
}

/** between attempts to connect, in ms: at first the process may be just starting */
const firstPause = 5;
const longestPause = 200;
/** longest that a reader of the log waits for what is about to be written, in ms */
const flushPatience = 1_000;

export class EgressLink {
  #options: EgressLinkOptions;
  /** what each machine with a policy of its own may reach; the only place in the daemon where secrets stay open */
  readonly #policies = new Map<string, CustomNetwork>();
  readonly #waiting = new Map<number, Waiting>();
  #socket: Socket | undefined;
  /** what the process at the other end speaks */
  #version = silentControlVersion;
  #pause = firstPause;
  #retry: NodeJS.Timeout | undefined;
  #connected: Promise<void> = Promise.resolve();
  #markConnected: () => void = () => {};
  #nextId = 1;
  #closed = false;
  readonly #closers: (() => void)[] = [];
  readonly #configured = Promise.withResolvers<void>();

  constructor(options: EgressLinkOptions) {
    this.#options = options;
    // Callers that open the line without waiting for this need no unhandled rejection.
    this.#configured.promise.catch(() => undefined);
    if (!options.settings) this.#configured.resolve();
  }

  /** other settings from now on; resolves when they are in force */
  async configure(settings: EgressSettings): Promise<void> {
    this.#options = { ...this.#options, settings };
    const deadline = Date.now() + (this.#options.patience ?? 10_000);
    while (this.#options.settings === settings && !this.#closed) {
      if (await this.#tried(() => this.#say({ kind: "settings", settings }), deadline)) return;
    }
  }

  /** resolves when the settings are in force, for what was open before too */
  async configured(): Promise<void> {
    const where = `the process that listens at "${this.#options.socket}" may be stopped`;
    const late = new SandkeepError("internal", `${unconfigured}: it does not answer; ${where}`);
    const timer = setTimeout(() => this.#configured.reject(late), this.#options.patience ?? 10_000);
    await this.#configured.promise.finally(() => clearTimeout(timer));
  }

  open(): void {
    this.#disconnected();
  }

  /** called when the line is closed for good */
  closing(listener: () => void): void {
    this.#closers.push(listener);
  }

  close(): void {
    this.#closed = true;
    for (const listener of this.#closers.splice(0)) listener();
    clearTimeout(this.#retry);
    this.#socket?.destroy();
  }

  /** resolves when the policy is in force, for what is open too; `fresh` where nothing can be */
  async set(machine: string, network: CustomNetwork, { fresh = false } = {}): Promise<void> {
    const before = this.#policies.get(machine);
    this.#policies.set(machine, network);
    try {
      await this.#given(machine, network, fresh);
    } catch (error) {
      // The caller gets an error that says nothing has changed, so a later process must not get the new policy.
      if (this.#policies.get(machine) === network && before) this.#policies.set(machine, before);
      throw error;
    }
  }

  async #given(machine: string, network: CustomNetwork, fresh: boolean): Promise<void> {
    const deadline = Date.now() + (this.#options.patience ?? 10_000);
    // If the process dies meanwhile, its successor gets the policy as soon as it runs.
    while (this.#policies.get(machine) === network && !this.#closed) {
      if (await this.#tried(() => this.#say({ kind: "set", machine, network, fresh }), deadline)) return;
    }
  }

  /** the machine has no policy any more: its mode decides alone. Not awaited, as it can only allow more */
  drop(machine: string): void {
    if (!this.#policies.delete(machine)) return;
    this.#say({ kind: "drop", machine }).catch(() => undefined);
  }

  /** drops the policies of all other machines: they ended while no daemon ran */
  keep(machines: string[]): void {
    void this.#connected.then(() => this.#say({ kind: "keep", machines })).catch(() => undefined);
  }

  /** resolves when all decisions about the machine are in its log, or after a moment if the process does not answer */
  async flush(machine: string): Promise<void> {
    const ask = () => this.#say({ kind: "flush", machine });
    await this.#tried(ask, Date.now() + flushPatience).catch(() => false);
  }

  /** true when it was answered, false when the line broke over it */
  async #tried(ask: () => Promise<void>, deadline: number): Promise<boolean> {
    const late = new SandkeepError("internal", "Cannot change the network policy: the egress process does not answer");
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(late), Math.max(0, deadline - Date.now()));
    });
    try {
      await Promise.race([this.#connected, timeout]);
      await Promise.race([ask(), timeout]);
      return true;
    } catch (error) {
      if (error === broken) return false;
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  #say(order: EgressOrder): Promise<void> {
    const socket = this.#socket;
    if (!socket) return Promise.reject(broken);
    if (this.#version > egressControlVersion) return Promise.reject(this.#refused());
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      socket.write(writeControlLine({ id, ...order }));
    });
  }

  #disconnected(): void {
    this.#socket = undefined;
    this.#version = silentControlVersion;
    for (const waiting of this.#waiting.values()) waiting.reject(broken);
    this.#waiting.clear();
    this.#connected = new Promise((resolve) => {
      this.#markConnected = resolve;
    });
    this.#connect();
  }

  #connect(): void {
    if (this.#closed) return;
    const socket = connect(this.#options.socket);
    socket.once("connect", () => this.#use(socket));
    socket.on("error", () => undefined);
    socket.once("close", () => {
      if (this.#socket === socket) return this.#disconnected();
      this.#retry = setTimeout(() => this.#connect(), this.#pause);
      this.#retry.unref();
      this.#pause = Math.min(this.#pause * 2, longestPause);
    });
    // Machines go on without the daemon, and the daemon ends without them.
    socket.unref();
  }

  #use(socket: Socket): void {
    if (this.#closed) {
      socket.destroy();
      return;
    }
    this.#socket = socket;
    this.#pause = firstPause;
    let rest = "";
    socket.setEncoding("utf8").on("data", (text: string) => {
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) this.#received(line, socket);
    });
    const { settings } = this.#options;
    if (settings) {
      this.#say({ kind: "settings", settings }).then(this.#configured.resolve, (error) => {
        if (error === broken) return;
        this.#configured.reject(new SandkeepError("conflict", `${unconfigured}: ${refusalIn(error)}`));
        this.#options.logError(error);
      });
    }
    const known = [...this.#policies].map(([machine, network]) =>
      this.#say({ kind: "set", machine, network, fresh: false }),
    );
    for (const answer of known) {
      answer.catch((error) => {
        if (error !== broken) this.#options.logError(error);
      });
    }
    this.#markConnected();
  }

  #received(written: string, socket: Socket): void {
    const line = readEgressProcessLine(written);
    if (!line) return;
    if ("questions" in line) {
      const answers = line.questions.map(({ question, machine, ancestry }) => {
        return { question, command: this.#options.commandOf(machine, ancestry) };
      });
      socket.write(writeControlLine({ kind: "commands", answers }));
    } else if ("v" in line) {
      this.#greeted(line.v);
    } else {
      const waiting = this.#waiting.get(line.id);
      this.#waiting.delete(line.id);
      if (line.error === undefined) waiting?.resolve();
      else waiting?.reject(this.#refused(line.error));
    }
  }

  /** a newer process may misunderstand the orders, so it gets none */
  #greeted(version: number): void {
    this.#version = version;
    if (version <= egressControlVersion) return;
    for (const waiting of this.#waiting.values()) waiting.reject(this.#refused());
    this.#waiting.clear();
  }

  #refused(error?: string): SandkeepError {
    const other = otherControlVersion(this.#version);
    const why = [
      ...(error === undefined ? [] : [error]),
      ...(other === undefined ? [] : [`the egress process ${other}`]),
    ];
    return new SandkeepError("internal", `${unchanged}${why.join("; ")}`);
  }
}

const unchanged = "Cannot change the network policy: ";
const unconfigured = "Cannot give the network settings to the egress process that runs";

/** a process of another version may not know the order; it ends with the last sandbox */
function refusalIn(error: unknown): string {
  const why = messageOf(error).replace(unchanged, "");
  return `${why} (it ends with the last sandbox: sandkeep serve --stop-all, with the settings of before)`;
}

/** why a line ended before its answer came */
const broken = new Error("The connection to the egress process has ended");
