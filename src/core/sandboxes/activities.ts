/**
 * What sandboxes do now: the last command of each, the load of those that run, and the traffic of sessions that are not
 * over. For lists that show many of them.
 */

import type { Commands } from "../commands/commands.ts";
import { isSandkeepError } from "../model/errors.ts";
import type { Command, Owner, Session } from "../model/sandbox.ts";
import type { Load } from "../sessions/load.ts";
import type { Sample } from "../sessions/samples.ts";
import type { Sessions } from "../sessions/sessions.ts";
import { isOver } from "../sessions/states.ts";
import type { Sandboxes } from "./sandboxes.ts";

export interface SandboxActivity {
  name: string;
  /** the last command of its current session */
  command?: Command;
  /** its current session */
  sessionId: string;
  /** while it runs */
  load?: Load;
  /** bytes of its current session so far, which are not yet in the sandbox's totals; unset once the session is over */
  traffic?: { bytesIn: number; bytesOut: number };
  /** what its current session used lately, if that is asked for and it runs; oldest first */
  samples?: Sample[];
}

/** How far back the samples of each sandbox go. */
export interface Lately {
  from: number;
  /** at most one sample in this time, in ms */
  step: number;
}

interface Parts {
  sandboxes: Pick<Sandboxes, "get">;
  sessions: Pick<Sessions, "load" | "usage" | "samples">;
  commands: Pick<Commands, "page">;
}

export class Activities {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** leaves out names that no sandbox has */
  async of(owner: Owner, names: readonly string[], lately?: Lately): Promise<SandboxActivity[]> {
    const found = await Promise.all(names.map((name) => this.#one(owner, name, lately)));
    return found.flatMap((activity) => activity ?? []);
  }

  async #one(owner: Owner, name: string, lately?: Lately): Promise<SandboxActivity | undefined> {
    const { sandboxes, sessions, commands } = this.#parts;
    try {
      const { session } = await sandboxes.get(owner, name);
      const isRunning = session.state === "running";
      const [{ items }, load, samples] = await Promise.all([
        commands.page(owner, session.id, { limit: 1, order: "desc" }),
        isRunning ? known(sessions.load(owner, session.id)) : undefined,
        isRunning && lately ? known(sessions.samples(owner, session.id, lately)) : undefined,
      ]);
      const [command] = items;
      const traffic = await this.#traffic(owner, session, load);
      return {
        name,
        sessionId: session.id,
        ...(command && { command }),
        ...(load && { load }),
        ...(traffic && { traffic }),
        ...(samples && { samples }),
      };
    } catch (error) {
      if (isSandkeepError(error) && error.code === "not-found") return undefined;
      throw error;
    }
  }

  async #traffic(owner: Owner, { id, state }: Session, load: Load | undefined): Promise<SandboxActivity["traffic"]> {
    if (isOver(state)) return undefined;
    if (load) return { bytesIn: load.network.received, bytesOut: load.network.sent };
    const usage = await known(this.#parts.sessions.usage(owner, id));
    return usage && { bytesIn: usage.ingressBytes, bytesOut: usage.egressBytes };
  }
}

/** a session may end, or pause, between two reads */
function known<T>(answer: Promise<T>): Promise<T | undefined> {
  return answer.catch(() => undefined);
}
