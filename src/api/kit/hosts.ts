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
import { remembered } from "../../base/remembered.ts";

/** `header` is the request's Host header; a request without one is accepted, since browsers always send it */
export function isOwnHost(header: string | null | undefined, own: () => string[]): boolean {
  if (header === null || header === undefined || header === "" || isEveryones(header)) return true;
  const host = hostnameOf(header);
  return host !== undefined && own().includes(host);
}

/** "example.com" of "Example.com.:7700" */
export const hostnameOf = remembered((header: string): string | undefined =>
  URL.parse(`http://${header}`)?.hostname.replace(/\.$/, ""),
);

/** whether it is an address, or a name that no page of the internet can have */
const isEveryones = remembered((header: string): boolean => {
  const host = hostnameOf(header);
  if (host === undefined) return false;
  return isIP(host.replace(/^\[|\]$/g, "")) !== 0 || !host.includes(".") || host.endsWith(".localhost");
});
