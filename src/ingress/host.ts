/** Which sandbox a Host header means. */

import { remembered } from "../base/remembered.ts";

/** the host of "Name.Example:8080" in its plain form: lowercase, without port and closing dot */
export function hostName(header: string | undefined): string {
  return nameIn(header ?? "");
}

const nameIn = remembered((header: string): string => {
  const [, bracketed, plain = ""] = /^(?:(\[[^\]]*\])|([^:]*))(?::\d*)?$/.exec(header) ?? [];
  return (bracketed ?? plain).toLowerCase().replace(/\.$/, "");
});

export function isBelow(host: string, domain: string): boolean {
  return host.endsWith(`.${domain}`);
}

/** "sb-1" of "sb-1.example.com"; undefined when it is not exactly one label below the domain */
export function subdomainOf(host: string, domain: string): string | undefined {
  const label = host.slice(0, -(domain.length + 1));
  return isBelow(host, domain) && /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/.test(label) ? label : undefined;
}
