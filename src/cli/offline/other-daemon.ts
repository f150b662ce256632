/** Tells a person whose settings name a daemon that a command works on this host's data directory instead. */

import { addressIn } from "../client/connection.ts";

/** whether the settings name a daemon, and not the one of this directory */
export function isOtherDaemon({ SANDKEEP_URL: url }: NodeJS.ProcessEnv, dataDir: string): boolean {
  return Boolean(url) && !isSame(url ?? "", addressIn(dataDir));
}

/** undefined if the settings name no other daemon */
export function otherDaemonNote(environment: NodeJS.ProcessEnv, dataDir: string): string | undefined {
  if (!isOtherDaemon(environment, dataDir)) return undefined;
  const { SANDKEEP_URL: url } = environment;
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
