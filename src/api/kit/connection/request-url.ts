/** The URL of a request of Node's server, from its request line and its Host header. */

import type { IncomingMessage } from "node:http";

/** The host or the path of a request is malformed. */
export class MalformedRequest extends Error {
  override readonly name = "MalformedRequest";
}

/** the characters of nearly all requests; the URL of such a host and path needs no parser to be in its normal form */
const plainHost = /^[a-z0-9._-]+(?::(?:[1-5]\d{3,4}|[6-9]\d{3}))?$/;
const plainPath = /^\/[!#$&-;=?-[\]_a-z~]*$/;
const dotSegment = /\/\.\.?(?:[/?#]|$)/;

/** in its normal form; throws MalformedRequest */
export function requestUrl({ url = "", headers, socket }: IncomingMessage): string {
  // Some health checks speak HTTP/1.0, which has no Host header.
  const host = headers.host || "localhost";
  const scheme = "encrypted" in socket && socket.encrypted ? "https" : "http";
  if (plainHost.test(host) && plainPath.test(url) && !dotSegment.test(url)) return `${scheme}://${host}${url}`;
  const isAbsolute = /^https?:\/\//.test(url);
  if (!isAbsolute && !url.startsWith("/")) throw new MalformedRequest("The path does not begin with a slash");
  if (url.split("?", 1)[0]?.includes("\\")) throw new MalformedRequest("The path has a backslash in it");
  const parsed = URL.parse(isAbsolute ? url : `${scheme}://${host}${url}`);
  if (!parsed) throw new MalformedRequest("The host or the path is not that of a URL");
  // A host with a slash or an @ in it would become a part of something else.
  const named = host.replace(/:\d*$/, "").toLowerCase();
  if (!isAbsolute && parsed.hostname.length !== named.length && parsed.hostname !== named)
    throw new MalformedRequest("The host is not that of a URL");
  return parsed.href;
}
