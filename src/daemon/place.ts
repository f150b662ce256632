/** Where clients find the daemon and the ports of its sandboxes. */

import type { Config } from "../config/config.ts";
import { urlHost } from "./listening.ts";

/** Where the daemon is found. */
export interface Place {
  config: Config;
  /** the one it listens on, once it does */
  port: number;
}

export function publicUrlOf({ config, port }: Place): string {
  return config.publicUrl ?? `http://${urlHost(config.host)}:${port}`;
}

/** where labels lead to sandboxes: what stands before the daemon stands before them too */
export function domainUrlOf(place: Place): string {
  const url = new URL(publicUrlOf(place));
  return `${url.protocol}//${place.config.domain}${url.port === "" ? "" : `:${url.port}`}`;
}
