/** The way in: labels under which ports of sandboxes are reached from outside. */

import type { Duplex } from "node:stream";
import type { Context } from "./context.ts";
import { isSandkeepError, SandkeepError } from "./errors.ts";
import type { Ids } from "./ids.ts";
import { isOver } from "./lifecycle.ts";
import type { Route } from "./sandbox.ts";

/** a port that has a label keeps it */
export function routesFor(ids: Pick<Ids, "subdomain">, ports: number[], before: Route[]): Route[] {
  return [...new Set(ports)].map(
    (port) => before.find((route) => route.port === port) ?? { port, subdomain: ids.subdomain() },
  );
}

export class Routes {
  readonly #context: Context;

  constructor(context: Context) {
    this.#context = context;
  }

  /**
   * what a label leads to; `not-found` when no sandbox has it, `gone` when its session is over, `conflict` from open()
   * when nothing listens on the port
   */
  async connect(subdomain: string): Promise<{ open(): Promise<Duplex> }> {
    const sandbox = await this.#context.store.findSandboxByRoute(subdomain);
    const route = sandbox?.routes.find((candidate) => candidate.subdomain === subdomain);
    if (!sandbox || !route) throw new SandkeepError("not-found", `No sandbox has the address "${subdomain}"`);
    const machine = isOver(sandbox.state) ? undefined : this.#context.runtime.machine(sandbox.currentSessionId);
    if (!machine) throw new SandkeepError("gone", `The sandbox behind "${subdomain}" has stopped`);
    return {
      open: async () => {
        try {
          return await machine.connect(route.port);
        } catch (cause) {
          if (isSandkeepError(cause, "stopped") || isSandkeepError(cause, "gone")) throw cause;
          throw new SandkeepError("conflict", `Nothing in the sandbox listens on port ${route.port}`, { cause });
        }
      },
    };
  }
}
