/** Tells a person whose settings name a daemon that a command works on this host's data directory instead. */

import { addressIn } from "../client/connection.ts";

/** undefined if the settings name no daemon, or the one of this directory */
export function otherDaemonNote({ SANDKEEP_URL: url }: NodeJS.ProcessEnv, dataDir: string): string | undefined {
  if (!url || isSame(url, addressIn(dataDir))) return undefined;
  return `This works on the images in ${dataDir} of this host, not on those of the daemon at ${url}`;
}

function isSame(one: string, other: string): boolean {
  const [first, second] = [one, other].map((text) => (URL.canParse(text) ? new URL(text) : undefined));
  if (!first || !second) return false;
  return first.origin === second.origin || (first.port === second.port && isLoopback(first) && isLoopback(second));
}

function isLoopback({ hostname }: URL): boolean {
  return hostname === "localhost" || hostname === "[::1]" || hostname.startsWith("127.") || hostname === "0.0.0.0";
}
