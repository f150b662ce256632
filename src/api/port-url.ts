/** The address at which the world finds a port of a sandbox. */

/** `domain` is where labels lead to sandboxes, and how one gets there: "http://localhost:7700" */
export function portUrl(domain: string, subdomain: string): string {
  return domain.replace("://", `://${subdomain}.`);
}
