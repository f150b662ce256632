/**
 * Ports by path, for clients that cannot resolve names below the domain: /port/<subdomain>/… of the daemon's own address
 * is what <subdomain>.<domain>/… is. The daemon and all sandboxes then share one origin, so what a program in a sandbox
 * answers is confined: a browser runs it in an origin of its own, and its cookies stay below its path.
 */

import { pairs } from "../base/http-headers.ts";
import type { RawHeaders } from "./headers.ts";

export interface PortPath {
  subdomain: string;
  /** the prefix of its addresses: "/port/sb-1" */
  prefix: string;
  /** what the program is asked for: "/a?b" */
  url: string;
}

/** the port that a request's path names; undefined when it names none */
export function portPath(url: string | undefined): PortPath | undefined {
  const [, prefix, subdomain, rest] =
    /^(\/port\/([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?))([/?].*)?$/.exec(url ?? "") ?? [];
  if (prefix === undefined || subdomain === undefined) return undefined;
  return { subdomain, prefix, url: rest === undefined || rest.startsWith("?") ? `/${rest ?? ""}` : rest };
}

/** headers that would reach beyond the path */
const dropped = [
  "clear-site-data",
  "service-worker-allowed",
  "strict-transport-security",
  "alt-svc",
  "nel",
  "report-to",
  "reporting-endpoints",
];
const sandbox = "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts";

/** the headers of a response, limited to paths below the prefix */
export function confined(headers: RawHeaders, prefix: string): RawHeaders {
  const kept = pairs(headers).filter(([name]) => !dropped.includes(name.toLowerCase()));
  return [
    ...kept.flatMap(([name, value]) => [name, confinedValue(name, value, prefix)]),
    "Content-Security-Policy",
    sandbox,
  ];
}

function confinedValue(name: string, value: string, prefix: string): string {
  if (name.toLowerCase() === "location") return /^\/(?!\/)/.test(value) ? prefix + value : value;
  if (name.toLowerCase() !== "set-cookie") return value;
  const [pair = "", ...attributes] = value.split(";");
  const others = attributes.filter((attribute) => !/^\s*(path|domain)\s*(=|$)/i.test(attribute));
  const path = attributes.map((attribute) => /^\s*path\s*=\s*(\/[^;]*)$/i.exec(attribute)?.[1]).find(Boolean) ?? "/";
  return [pair, ...others, ` Path=${prefix}${path.trimEnd()}`].join(";");
}
