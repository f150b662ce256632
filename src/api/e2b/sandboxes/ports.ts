/**
 * Ports of sandboxes for E2B's clients: by headers, which name the sandbox and its port, or by host names
 * `<port>-<sandbox>.<domain>`. This dialect itself serves envd's port.
 */

import type { IncomingHttpHeaders } from "node:http";
import type { PortNames, PortRefusal } from "../../kit/dialect.ts";
import { isSame, trafficToken } from "../access/tokens.ts";
import { envdPort } from "../envd/envd.ts";
import type { Dialect } from "../request.ts";

/** the label of a port; what follows a port's number and is no sandbox's id is refused by number and id */
const portLabel = /^(\d+)-(i[a-z0-9]*)$/;
const mostPort = 65_535;
/** what stands in for headers that name no port */
const malformed = "0-i";

export function portNames(dialect: Pick<Dialect, "sign" | "interpreters">): PortNames {
  return {
    portOf(headers: IncomingHttpHeaders) {
      const { "e2b-sandbox-id": given, "e2b-sandbox-port": port } = headers;
      if (typeof given !== "string" || typeof port !== "string" || Number(port) === envdPort) return undefined;
      const [id = ""] = given.split("-");
      return /^\d{1,5}$/.test(port) && /^i[a-z0-9]{1,63}$/.test(id) ? `${Number(port)}-${id}` : malformed;
    },
    tokenHeader: "e2b-traffic-access-token",
    isToken: (sandbox, token) => isSame(token, trafficToken(dialect, sandbox)),
    async ready(label, request) {
      const [, port] = portLabel.exec(label) ?? [];
      if (port !== undefined && !isPort(Number(port))) return { refusal: badPort };
      return dialect.interpreters.ready(label, request);
    },
    refused(label, refusal) {
      const [, port, sandboxId] = portLabel.exec(label) ?? [];
      return sandboxId === undefined ? undefined : gatewayError(sandboxId, Number(port), refusal);
    },
  };
}

function isPort(port: number): boolean {
  return port >= 1 && port <= mostPort;
}

const badPort = { status: 400, message: "Cannot find the sandbox: the request names no valid sandbox and port" };

interface Form {
  status: number;
  message: string;
  withPort?: boolean;
}

/** statuses and messages by which clients tell why a sandbox's port is not reached */
const forms: Record<string, Form> = {
  SANDBOX_NOT_FOUND: { status: 502, message: "The sandbox was not found" },
  SANDBOX_STOPPED: { status: 502, message: "The sandbox was not found" },
  SANDBOX_NOT_LISTENING: { status: 502, message: "The sandbox is running but port is not open", withPort: true },
  SANDBOX_BUSY: { status: 429, message: "The sandbox has too many open connections" },
};

function gatewayError(sandboxId: string, port: number, refusal: PortRefusal) {
  if (!isPort(port)) return { status: refusal.status, body: refusal.message };
  const { status, message, withPort = false }: Form = forms[refusal.code] ?? refusal;
  return { status, body: { sandboxId, message, ...(withPort && { port }), code: status } };
}
