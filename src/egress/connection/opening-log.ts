/** What the log says of the first bytes of a connection. */

import { isIP } from "node:net";
import { hostName } from "../../core/network/network-policy.ts";
import type { EgressEvent } from "../log/log.ts";
import type { Opening } from "./opening.ts";

export function protocolOf(opening: Opening): EgressEvent["protocol"] {
  if (opening.kind === "tls") return opening.postgres ? "postgres" : "tls";
  return opening.kind === "http" ? "http" : "tcp";
}

/** what an opening tells about a request */
export function requestOf(opening: Opening): Partial<EgressEvent> {
  if (opening.kind === "tls") return opening.name === undefined ? {} : { name: opening.name, sni: opening.name };
  if (opening.kind !== "http") return {};
  const { method, path, host } = opening;
  const name = host && isIP(host.replace(/:\d+$/, "")) === 0 && hostName(host.replace(/:\d+$/, ""));
  return { method, path: plainPath(path), ...(name && { name }) };
}

/** a proxy is asked for a whole address, which may have a password in it */
function plainPath(target: string): string {
  return target.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/]*/i, "") || "/";
}
