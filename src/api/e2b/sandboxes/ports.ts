/**
 * Ports of sandboxes for E2B's clients that use one address for all sandboxes: headers name the sandbox and its port.
 * This dialect itself serves envd's port.
 */

import type { IncomingHttpHeaders } from "node:http";
import type { PortNames } from "../../kit/dialect.ts";
import { isSame, trafficToken } from "../access/tokens.ts";
import { envdPort } from "../envd/envd.ts";
import type { Dialect } from "../request.ts";

export function portNames(dialect: Pick<Dialect, "sign" | "interpreters">): PortNames {
  return {
    portOf(headers: IncomingHttpHeaders) {
      const { "e2b-sandbox-id": sandbox, "e2b-sandbox-port": port } = headers;
      if (typeof sandbox !== "string" || typeof port !== "string" || Number(port) === envdPort) return undefined;
      return /^\d{1,5}$/.test(port) ? `${port}-${sandbox.split("-")[0]}` : undefined;
    },
    tokenHeader: "e2b-traffic-access-token",
    isToken: (sandbox, token) => isSame(token, trafficToken(dialect, sandbox)),
    ready: (port, request) => dialect.interpreters.ready(port, request),
  };
}
