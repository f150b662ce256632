/**
 * Headers as proxies see them, on the way in and on the way out: which of them are about one connection only and go no
 * further (RFC 9110, 7.6.1), the list that Node gives them as, in pairs, and the head of an answer.
 */

import { STATUS_CODES } from "node:http";

export const hopByHop: readonly string[] = [
  "connection",
  "http2-settings",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "transfer-encoding",
  "upgrade",
];

/** never dropped because a message names them in its Connection header: that would let a sender unsay them */
export const alwaysKept: readonly string[] = ["host", "content-length", "content-type", "cookie", "authorization"];

/** names and values, which Node gives in turn */
export function pairs(raw: readonly string[]): [name: string, value: string][] {
  return Array.from({ length: raw.length / 2 }, (_, at) => [raw[2 * at] ?? "", raw[2 * at + 1] ?? ""]);
}

/** whether an Upgrade header offers HTTP/2 anywhere in its list: no parser here reads HTTP/2 after an upgrade */
export function offersHttp2(upgrade: string): boolean {
  return upgrade.split(",").some((protocol) => /^\s*h2c?\b/i.test(protocol));
}

/** The head of an answer. Node reads headers as Latin-1, so they are written as that. */
export function headOf(status: number, reason: string, headers: readonly (readonly [string, string])[]): Buffer {
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  return Buffer.from(`HTTP/1.1 ${status} ${reason || STATUS_CODES[status] || ""}\r\n${lines}\r\n`, "latin1");
}
