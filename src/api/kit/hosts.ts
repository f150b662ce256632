/**
 * The host names that a daemon answers to. An attacker can register a name and point it at this host (DNS rebinding);
 * a page in a browser could then use the daemon as its own server. So the daemon accepts only these:
 *
 *   addresses              IP addresses; no name is involved
 *   localhost              and names below it
 *   names without a dot    of a local network or of containers, which no page of the internet can have
 *   our own                the host of SANDKEEP_PUBLIC_URL, SANDKEEP_DOMAIN, and what SANDKEEP_ALLOWED_HOSTS lists
 */

import { isIP } from "node:net";
import { keepLast } from "../../base/bounded-map.ts";

/** `header` is the request's Host header; a request without one is accepted, since browsers always send it */
export function isOwnHost(header: string | null | undefined, own: () => string[]): boolean {
  if (header === null || header === undefined || header === "") return true;
  const host = hostnameOf(header);
  if (host === undefined) return false;
  if (isIP(host.replace(/^\[|\]$/g, "")) !== 0 || !host.includes(".")) return true;
  return host.endsWith(".localhost") || own().includes(host);
}

/** "example.com" of "Example.com.:7700" */
export function hostnameOf(header: string): string | undefined {
  if (known.has(header)) return known.get(header);
  const hostname = URL.parse(`http://${header}`)?.hostname.replace(/\.$/, "");
  known.set(header, hostname);
  keepLast(known, mostKnown);
  return hostname;
}

/** the names in the latest headers: most clients send the same one with every request */
const known = new Map<string, string | undefined>();
const mostKnown = 1000;
