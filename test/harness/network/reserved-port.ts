/** A port of loopback that belongs to one daemon of a test, also while that daemon is down. */

import { randomInt } from "node:crypto";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import type { Undo } from "../harness.ts";

/** the first of the ports that are tried */
const lowest = 15_000;

/**
 * Below the ports that the kernel gives to those that ask for any, so that none of them takes it. Other tests leave it
 * alone because this process has the same port of UDP, which the kernel gives to one process, until that ends.
 */
export async function reservedPort(undo: Undo, choose = anyPort): Promise<number> {
  for (;;) {
    const port = choose();
    const reservation = createSocket("udp4").unref();
    reservation.bind({ port, address: "127.0.0.1", exclusive: true });
    const isOurs = await once(reservation, "listening").then(
      () => isFree(port),
      () => false,
    );
    if (isOurs) {
      undo.defer(async () => void reservation.close());
      return port;
    }
    reservation.close();
  }
}

function anyPort(): number {
  const [first = 0] = readFileSync("/proc/sys/net/ipv4/ip_local_port_range", "utf8").split(/\s+/).map(Number);
  return randomInt(lowest, first > lowest + 1000 ? first : 32_768);
}

/** whether no program listens there */
async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, "127.0.0.1");
  const isListening = await once(server, "listening").then(
    () => true,
    () => false,
  );
  server.close();
  if (isListening) await once(server, "close");
  return isListening;
}
