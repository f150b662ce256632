/** Opens connections into sandboxes: only so many to each, and to private ones only with their token. */

import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { SandkeepError } from "../core/model/errors.ts";
import type { Routes } from "../core/network/routes.ts";
import type { PortAccess } from "./port-access.ts";

export interface ConnectionsOptions {
  routes: Pick<Routes, "connect">;
  /** how clients of a dialect name ports, and prove that they may reach private ones; default neither */
  ports?: PortAccess | undefined;
  /** most connections into one sandbox at a time; default 512 */
  connections?: number;
  /** how long the sandbox may take to accept a connection, in ms; default 30 s */
  patience?: number;
}

/** They are counted by sandbox, whatever its ports are called. */
export class Connections {
  readonly #routes: ConnectionsOptions["routes"];
  readonly #ports: PortAccess | undefined;
  readonly #most: number;
  readonly #patience: number;
  readonly #open = new Map<string, number>();

  constructor({ routes, ports, connections = 512, patience = 30_000 }: ConnectionsOptions) {
    this.#routes = routes;
    this.#ports = ports;
    this.#most = connections;
    this.#patience = patience;
  }

  async open(
    subdomain: string | undefined,
    { headers }: IncomingMessage,
    signal: AbortSignal,
  ): Promise<PortConnection> {
    if (subdomain === undefined) throw new SandkeepError("not-found", "Cannot connect: the host names no sandbox");
    let counted: string | undefined;
    let isOver = false;
    const leave = once(() => {
      isOver = true;
      if (counted !== undefined) this.#leave(counted);
    });
    const enter = async (): Promise<PortConnection> => {
      const { open, port } = await this.#routes.connect(subdomain);
      if (isOver) throw new SandkeepError("conflict", "Cannot connect: the client did not wait");
      if (port?.isPrivate) this.#permit(port.sandbox, headers);
      counted = this.#join(port?.sandbox ?? subdomain);
      return { way: await open(), host: port?.host };
    };
    try {
      const opened = await this.#dial(enter(), signal);
      opened.way.once("close", leave);
      if (opened.way.closed) leave();
      return opened;
    } catch (error) {
      leave();
      throw error;
    }
  }

  /** before anything is done for it */
  #permit(sandbox: string, headers: IncomingHttpHeaders): void {
    const token = this.#ports && headers[this.#ports.tokenHeader];
    if (typeof token === "string" && this.#ports?.isToken(sandbox, token)) return;
    throw new SandkeepError("forbidden", "Cannot connect: the sandbox's token is missing or wrong");
  }

  #join(sandbox: string): string {
    const count = this.#open.get(sandbox) ?? 0;
    if (count >= this.#most) throw new SandkeepError("limit", `Cannot connect: "${sandbox}" has ${count} connections`);
    this.#open.set(sandbox, count + 1);
    return sandbox;
  }

  async #dial(dialled: Promise<PortConnection>, signal: AbortSignal): Promise<PortConnection> {
    const { promise: over, reject } = Promise.withResolvers<never>();
    const giveUp = () => reject(new SandkeepError("conflict", "Cannot connect: the sandbox does not accept"));
    const timer = setTimeout(giveUp, this.#patience);
    signal.addEventListener("abort", giveUp);
    let late = false;
    dialled.then(
      ({ way }) => late && way.destroy(),
      () => undefined,
    );
    try {
      return await Promise.race([dialled, over]);
    } catch (error) {
      late = true;
      throw error;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", giveUp);
    }
  }

  #leave(sandbox: string): void {
    const count = (this.#open.get(sandbox) ?? 1) - 1;
    if (count > 0) this.#open.set(sandbox, count);
    else this.#open.delete(sandbox);
  }
}

/** A connection into a sandbox, and the host that requests on it name, where that is not the client's. */
interface PortConnection {
  way: Duplex;
  host: string | undefined;
}

function once(action: () => void): () => void {
  let done = false;
  return () => {
    if (!done) action();
    done = true;
  };
}
