/**
 * By which names a daemon may be addressed. A name that anybody can register can be made to lead to this host (DNS
 * rebinding), and a page in a browser would then talk to it as to its own server; so only names count that are ours:
 *
 *   addresses              what was connected to; no name is involved
 *   localhost              and what is below it
 *   names without a dot    of a local network or of containers, which no page of the internet can have
 *   our own                the host of SANDKEEP_PUBLIC_URL, SANDKEEP_DOMAIN, and what SANDKEEP_ALLOWED_HOSTS lists
 */

import { isIP } from "node:net";

/** `header` is that of the request; one without, which no browser sends, names nothing */
export function isOwnHost(header: string | null | undefined, own: string[]): boolean {
  if (header === null || header === undefined || header === "") return true;
  const host = hostnameOf(header);
  if (host === undefined) return false;
  if (isIP(host.replace(/^\[|\]$/g, "")) !== 0 || !host.includes(".")) return true;
  return host.endsWith(".localhost") || own.includes(host);
}

/** "example.com" of "Example.com.:7700" */
export function hostnameOf(header: string): string | undefined {
  const url = `http://${header}`;
  return URL.canParse(url) ? new URL(url).hostname.replace(/\.$/, "") : undefined;
}
