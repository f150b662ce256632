/** What sandboxes do now: the last command of each, and the load of those that run. For lists that show many of them. */

import type { Commands } from "../commands/commands.ts";
import { isSandkeepError } from "../model/errors.ts";
import type { Command, Owner, Session } from "../model/sandbox.ts";
import type { Load } from "../sessions/load.ts";
import type { Sessions } from "../sessions/sessions.ts";
import type { Sandboxes } from "./sandboxes.ts";

export interface SandboxActivity {
  name: string;
  /** the last command of its current session */
  command?: Command;
  /** while it runs */
  load?: Load;
}

interface Parts {
  sandboxes: Pick<Sandboxes, "get">;
  sessions: Pick<Sessions, "load">;
  commands: Pick<Commands, "page">;
}

export class Activities {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** leaves out names that no sandbox has */
  async of(owner: Owner, names: readonly string[]): Promise<SandboxActivity[]> {
    const found = await Promise.all(names.map((name) => this.#one(owner, name)));
    return found.flatMap((activity) => activity ?? []);
  }

  async #one(owner: Owner, name: string): Promise<SandboxActivity | undefined> {
    const { sandboxes, commands } = this.#parts;
    try {
      const { session } = await sandboxes.get(owner, name);
      const [{ items }, load] = await Promise.all([
        commands.page(owner, session.id, { limit: 1, order: "desc" }),
        this.#load(owner, session),
      ]);
      const [command] = items;
      return { name, ...(command && { command }), ...(load && { load }) };
    } catch (error) {
      if (isSandkeepError(error) && error.code === "not-found") return undefined;
      throw error;
    }
  }

  /** a session may end, or pause, between two reads */
  async #load(owner: Owner, { id, state }: Session): Promise<Load | undefined> {
    if (state !== "running") return undefined;
    return this.#parts.sessions.load(owner, id).catch(() => undefined);
  }
}
