/** The mount table: which dialect answers a request, by its path, host, method and headers. */

import { remembered } from "../../../base/remembered.ts";
import type { ApiDialect, Mount } from "../dialect.ts";
import { hostnameOf } from "../hosts.ts";

/** A row, and the name of its dialect. */
export interface NamedMount extends Mount {
  wire: string;
}

export class MountTable {
  /** the rows that a path matches */
  readonly #of: (path: string) => NamedMount[];
  readonly #isServed: (host: string) => boolean;

  /** rows are tried in order, the first dialect's first */
  constructor(dialects: readonly ApiDialect[]) {
    const all = dialects.flatMap(({ wire, mounts }) => mounts.map((mount) => ({ ...mount, wire })));
    this.#of = remembered((path) => all.filter((mount) => mount.path.test(path)));
    this.#isServed = remembered((host) => all.some((mount) => mount.host?.test(host)));
  }

  find(request: Request, pathname = new URL(request.url).pathname): NamedMount | undefined {
    const host = hostnameOf(request.headers.get("host") ?? "") ?? "";
    return this.#of(pathname).find(
      (mount) =>
        (mount.host?.test(host) ?? true) &&
        (mount.methods?.includes(request.method) ?? true) &&
        (mount.headers?.(request.headers) ?? true),
    );
  }

  /** whether a row of some dialect names this host, even if it also looks like a sandbox's port */
  servesHost(header: string | null | undefined): boolean {
    const host = hostnameOf(header ?? "");
    return host !== undefined && this.#isServed(host);
  }
}
