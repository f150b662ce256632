/** Listening on the address of the settings: whether it is free, why it is not in a sentence, and how it ends. */

import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import { after } from "../base/concurrency/waits.ts";
import { codeOf } from "../base/error-code.ts";
import { messageOf, SandkeepError } from "../core/model/errors.ts";

export interface Address {
  host: string;
  port: number;
}

/** resolves once it listens; an address that cannot be used is a sentence */
export async function listenOn(server: Server, { host, port }: Address): Promise<void> {
  try {
    await once(server.listen(port, host), "listening");
  } catch (cause) {
    throw refusal({ host, port }, cause);
  }
}

/** rejects when the address cannot be listened on, before anything that takes time is done in vain */
export async function requireFree(address: Address): Promise<void> {
  const server = createServer();
  await listenOn(server, address);
  await new Promise((resolve) => server.close(resolve));
}

/** how long open streams may take to send their last lines, in ms */
const closeTimeout = 250;

/** What closing needs of a server. */
export interface ClosableServer {
  /** accepts no connections from now on; `closed` is called when the last of the open ones has ended */
  close(closed: () => void): void;
  closeAllConnections(): void;
}

/**
 * The server, whose closing also ends connections that were upgraded, such as those of terminals. Node's own leaves them
 * open, and waits until their clients end them.
 */
export function withUpgraded(server: Server & ClosableServer): ClosableServer {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  return {
    close: (closed) => void server.close(closed),
    closeAllConnections() {
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** no new connections from now on; those that are open end once what is under way is `settled` */
export async function closeServer(server: ClosableServer, settled: Promise<void>): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(resolve));
  await settled;
  // Streams have been told to end, and say so.
  await Promise.race([closed, after(closeTimeout)]);
  server.closeAllConnections();
  await closed;
}

function refusal({ host, port }: Address, cause: unknown): SandkeepError {
  const address = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  const [why, hint] =
    codeOf(cause) === "EADDRINUSE"
      ? ["another program uses this port", "--port or SANDKEEP_PORT names another one; 0 takes any that is free"]
      : [messageOf(cause), "--host or SANDKEEP_HOST is the address, --port or SANDKEEP_PORT the port"];
  return new SandkeepError("conflict", `Cannot listen on ${address}: ${why}\nhint: ${hint}`, { cause });
}

/** a wildcard address is reached from this host by loopback */
export function urlHost(host: string): string {
  if (host === "0.0.0.0" || host === "::") return "127.0.0.1";
  return host.includes(":") ? `[${host}]` : host;
}
