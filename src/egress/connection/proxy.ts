/**
 * The way out through a company's proxy: a tunnel that is asked for with CONNECT (RFC 9110, 9.3.6). What the operator has
 * opened of the host's own network is reached without it, and so is what the settings leave out.
 */

import { STATUS_CODES } from "node:http";
import { isIP, type Socket } from "node:net";
import { bytesOf, contains, parseCidr } from "../../core/network/cidr.ts";
import { isPublic } from "../../core/network/special-ranges.ts";
import type { EgressProxy } from "../../core/ports/egress-settings.ts";
import type { Destination } from "../../protocols/netd-channel.ts";
import { addressesOf, type QuestionOptions } from "../dns/questions.ts";
import { dial } from "./tcp.ts";

/** Where a connection goes, and by which name it is known there. */
export interface Target extends Destination {
  name?: string | undefined;
}

/** whether the proxy is the way to this target */
export function isProxied(proxy: EgressProxy, { address, name }: Target): boolean {
  if (!isPublic(address)) return false;
  const bytes = bytesOf(address);
  return !proxy.direct.some((entry) => {
    const range = parseCidr(entry);
    if (range) return bytes !== undefined && contains(range, bytes);
    const domain = entry.toLowerCase().replace(/^\*?\./, "");
    return name !== undefined && (name === domain || name.endsWith(`.${domain}`));
  });
}

/** longest that a proxy may take to open a tunnel, in ms: it connects first */
const patience = 30_000;
const longestHead = 16 << 10;

/** a connection to the target through the proxy; rejects with a sentence that has nothing of the proxy's credentials */
export async function dialThrough(
  proxy: EgressProxy,
  target: Target,
  options: Omit<QuestionOptions, "decided">,
): Promise<Socket> {
  const { signal } = options;
  const found = isIP(proxy.host) ? [proxy.host] : await addressesOf(proxy.host, options);
  const [address] = found;
  if (address === undefined) throw new Error(`Cannot reach the proxy "${proxy.host}": no such name`);
  const socket = await dial({ address, port: proxy.port }, signal).catch((cause) => {
    throw new Error(`Cannot reach the proxy "${proxy.host}" port ${proxy.port}: ${problemOf(cause)}`, { cause });
  });
  const host = (proxy.names && target.name) || target.address;
  const authority = `${host.includes(":") ? `[${host}]` : host}:${target.port}`;
  const credentials = proxy.authorization === undefined ? "" : `Proxy-Authorization: ${proxy.authorization}\r\n`;
  socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${credentials}\r\n`);
  const status = await tunnelled(socket, signal).catch((cause) => {
    socket.destroy();
    throw new Error(`Cannot connect to ${authority} through the proxy: ${problemOf(cause)}`, { cause });
  });
  if (status >= 200 && status < 300) return socket;
  socket.destroy();
  const words = STATUS_CODES[status] === undefined ? "" : ` ${STATUS_CODES[status]}`;
  throw new Error(`Cannot connect to ${authority}: the proxy answers ${status}${words}`);
}

/** the status of the proxy's answer; what follows it stays in the socket, as if it had not been read */
function tunnelled(socket: Socket, signal: AbortSignal): Promise<number> {
  return new Promise((resolve, reject) => {
    let head: Buffer = Buffer.alloc(0);
    const settle = (act: () => void) => {
      clearTimeout(timer);
      socket.off("readable", received).off("end", ended).off("close", ended);
      signal.removeEventListener("abort", aborted);
      act();
    };
    const fail = (why: string) => settle(() => reject(new Error(why)));
    const received = () => {
      for (let chunk = socket.read(); chunk !== null; chunk = socket.read()) head = Buffer.concat([head, chunk]);
      const end = head.indexOf("\r\n\r\n");
      if (end < 0 && head.length <= longestHead) return;
      const status = Number(/^HTTP\/1\.[01] ([2-5]\d\d)[ \r]/.exec(head.subarray(0, 64).toString("latin1"))?.[1]);
      if (end < 0 || Number.isNaN(status)) return fail("it does not answer in HTTP");
      settle(() => {
        if (end + 4 < head.length) socket.unshift(head.subarray(end + 4));
        // The stream notices only a turn later that its reader is gone, and would not start again by itself before.
        setImmediate(() => resolve(status));
      });
    };
    const ended = () => fail("it closed the connection");
    const aborted = () => fail("the connection was cancelled");
    const timer = setTimeout(() => fail("it does not answer"), patience);
    socket.on("readable", received).on("end", ended).on("close", ended);
    signal.addEventListener("abort", aborted, { once: true });
    if (signal.aborted) aborted();
  });
}

function problemOf(cause: unknown): string {
  const message = cause instanceof Error ? cause.message : String(cause);
  return message.replace(/^Cannot connect to \S+ port \d+: /, "");
}
