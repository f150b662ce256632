/** The addresses at which the world finds a port of a sandbox. */

/** `domain` is where labels lead to sandboxes, and how one gets there: "http://localhost:7700" */
export function portUrl(domain: string, subdomain: string): string {
  return domain.replace("://", `://${subdomain}.`);
}

/** the same port by a path of the daemon's own address, where no name below the domain has to be resolved */
export function portPathUrl(daemon: string, subdomain: string): string {
  return `${daemon}/port/${subdomain}`;
}
