/**
 * The headers of a request on its way into a sandbox and of the answer on its way out. Both are lists as Node gives
 * them, name and value in turn, so that order, case and repetition stay as they were written.
 */

import type { IncomingMessage } from "node:http";
import { BlockList, isIPv6 } from "node:net";
import { alwaysKept, hopByHop, pairs } from "../base/http-headers.ts";

export type RawHeaders = string[];

export interface RequestOptions {
  /** whether the wish for another protocol goes along */
  upgrade?: boolean;
  /** what the request names as its host, in place of what the client named */
  host?: string;
  /** names of headers that stay behind, in lower case */
  dropped?: readonly string[];
}

/** What the request tells the program in the sandbox. */
export function requestHeaders(request: IncomingMessage, options: RequestOptions = {}): RawHeaders {
  const dropped = connectionHeaders(request.headers.connection);
  for (const name of options.dropped ?? []) dropped.add(name);
  // The server has said "100 Continue" itself by now.
  const ours = new Set(["expect", ...forwardedNames]);
  if (options.host !== undefined) ours.add("host");
  const own = options.host === undefined ? [] : ["Host", options.host];
  const kept = [...own, ...filtered(request.rawHeaders, (name) => !dropped.has(name) && !ours.has(name))];
  const forwarded = forwardedHeaders(request);
  if (options.upgrade) return [...kept, ...forwarded, ...upgradeHeaders(request)];
  // The connection serves one request, and the ingress closes it. A program that were asked to do so would cut off a
  // client that still sends, before its answer arrives.
  return [...kept, ...forwarded, ...framing(request), "Connection", "keep-alive"];
}

/** The headers of the response to the client. A cookie never applies beyond the sandbox that sets it. */
export function responseHeaders(response: IncomingMessage, domain: string): RawHeaders {
  const dropped = connectionHeaders(response.headers.connection);
  const kept = filtered(response.rawHeaders, (name) => !dropped.has(name));
  return pairs(kept).flatMap(([name, value]) => [
    name,
    name.toLowerCase() === "set-cookie" ? hostOnly(value, domain) : value,
  ]);
}

/** The answer to a wish for another protocol, whose Connection and Upgrade headers are its point. */
export function upgradeAnswer(response: IncomingMessage, domain: string): RawHeaders {
  return [...responseHeaders(response, domain), ...upgradeHeaders(response)];
}

/** whether a request has a body, by the only two headers that announce one */
export function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

const forwardedNames = ["x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "forwarded"];

/** The client and its request. Only a proxy on this host is trusted to name another client. */
function forwardedHeaders({ headers, socket }: IncomingMessage): RawHeaders {
  const peer = plainAddress(socket.remoteAddress ?? "");
  const before = isLoopback(peer) ? headers : {};
  const chain = [before["x-forwarded-for"], peer].flat().filter((address) => address);
  const scheme = "encrypted" in socket && socket.encrypted ? "https" : "http";
  const first = (value: string | string[] | undefined) => [value].flat()[0];
  return [
    ...["X-Forwarded-For", chain.join(", ")],
    ...["X-Forwarded-Host", first(before["x-forwarded-host"]) ?? headers.host ?? ""],
    ...["X-Forwarded-Proto", first(before["x-forwarded-proto"]) ?? scheme],
  ];
}

function upgradeHeaders({ headers }: IncomingMessage): RawHeaders {
  return headers.upgrade === undefined ? [] : ["Connection", "Upgrade", "Upgrade", headers.upgrade];
}

/** How the body is delimited. Without such a header, Node would announce a body on a POST that has none. */
function framing(request: IncomingMessage): RawHeaders {
  if (request.headers["transfer-encoding"] !== undefined) return ["Transfer-Encoding", "chunked"];
  const silent = request.headers["content-length"] === undefined;
  return silent && !["GET", "HEAD", "OPTIONS", "TRACE", "DELETE"].includes(request.method ?? "")
    ? ["Content-Length", "0"]
    : [];
}

function connectionHeaders(connection: string | undefined): Set<string> {
  const named = (connection ?? "").split(",").map((name) => name.trim().toLowerCase());
  return new Set([...hopByHop, ...named.filter((name) => !alwaysKept.includes(name))]);
}

function filtered(headers: RawHeaders, keep: (name: string) => boolean): RawHeaders {
  return pairs(headers)
    .filter(([name]) => keep(name.toLowerCase()))
    .flat();
}

/**
 * Sandboxes are neighbours below one domain: a cookie for that domain would be sent to every other sandbox and to the
 * daemon. Without its Domain attribute it belongs to the host that set it.
 */
function hostOnly(cookie: string, domain: string): string {
  const [value = "", ...attributes] = cookie.split(";");
  const kept = attributes.filter((attribute) => {
    const [name = "", scope = ""] = attribute.split("=").map((part) => part.trim().toLowerCase());
    const reach = scope.replace(/^\./, "");
    return name !== "domain" || !(reach === domain || domain.endsWith(`.${reach}`));
  });
  return [value, ...kept].join(";");
}

const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8);
loopback.addAddress("::1", "ipv6");

function isLoopback(address: string): boolean {
  return address !== "" && loopback.check(address, isIPv6(address) ? "ipv6" : "ipv4");
}

/** "127.0.0.1" of "::ffff:127.0.0.1", which is how a socket of both versions names a peer of version 4 */
function plainAddress(address: string): string {
  return address.replace(/^::ffff:(?=[\d.]+$)/i, "");
}
