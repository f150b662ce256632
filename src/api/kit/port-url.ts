/** The URLs at which clients reach a port of a sandbox. */

/** `domain` is the URL below whose host labels name sandboxes' ports, such as "http://localhost:7700" */
export function portUrl(domain: string, subdomain: string): string {
  return domain.replace("://", `://${subdomain}.`);
}

/** the same port by a path on the daemon's own address, for clients that cannot resolve names below the domain */
export function portPathUrl(daemon: string, subdomain: string): string {
  return `${daemon}/port/${subdomain}`;
}
