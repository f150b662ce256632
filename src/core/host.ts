/** What an operator asks of a whole daemon: its numbers, and which of its processes are from an earlier build. */

import { SharedRun } from "../base/concurrency/single-flight.ts";
import { defaultTeam } from "./access/access.ts";
import type { Context } from "./context.ts";
import type { Diagnosis } from "./model/diagnosis.ts";
import { SandkeepError } from "./model/errors.ts";
import type { Caller, SessionState } from "./model/sandbox.ts";
import { requireAdmin, requireUnlimited } from "./model/scope.ts";
import type { OtherBuilds, ReplacedParts } from "./ports/runtime.ts";
import type { Vitals } from "./ports/vitals.ts";

/** Processes of an earlier build that still run, and why. */
export interface Waiting {
  /** with the names of the sandboxes that run on it */
  launcher?: { pid: number; sandboxes: string[] };
  egress?: NonNullable<OtherBuilds["egress"]>;
}

export interface Upgrade {
  replaced: ReplacedParts;
  waiting: Waiting;
}

/** the number of open sessions in each state */
type OpenSessions = Record<Exclude<SessionState, "stopped" | "failed" | "aborted">, number>;

export class Host {
  readonly #context: Context;
  readonly #examinations = new SharedRun<Diagnosis>();

  constructor(context: Context) {
    this.#context = context;
  }

  /** requires a key without limits, or one that is only limited to reading */
  async vitals(caller: Caller): Promise<Vitals & { sessions: OpenSessions }> {
    requireReader(caller, "a look at the numbers of the whole host");
    const { runtime, store } = this.#context;
    const sessions = { pending: 0, running: 0, paused: 0, snapshotting: 0, stopping: 0 };
    for (const { state } of await store.openSessions()) if (state in sessions) sessions[state as keyof OpenSessions]++;
    return { ...runtime.vitals(), sessions };
  }

  /** examines the host, with the same permission; concurrent calls share one examination */
  async diagnosis(caller: Caller): Promise<Diagnosis> {
    requireReader(caller, "an examination of the host");
    const { diagnose } = this.#context;
    if (!diagnose) throw new SandkeepError("unsupported", "Cannot examine the host: this daemon does not know how");
    return this.#examinations.run(diagnose);
  }

  /** replaces processes of an earlier build on which no sandbox runs */
  async upgrade(caller: Caller): Promise<Upgrade> {
    requireOperator(caller);
    requireUnlimited(caller, "an upgrade");
    const replaced = await this.#context.runtime.builds.replace();
    return { replaced, waiting: await this.#waiting() };
  }

  /** deletes what no image, sandbox or snapshot needs, and downloads that were cut off; returns the number of layers */
  async pruneImages(caller: Caller): Promise<number> {
    requireAdmin(caller, "deleting what no image needs");
    const { images } = this.#context.runtime;
    if (!images.prune) throw new SandkeepError("unsupported", "Cannot delete unused layers: this daemon has none");
    return images.prune();
  }

  async #waiting(): Promise<Waiting> {
    const { runtime, store } = this.#context;
    const { launcher, egress } = runtime.builds.others();
    const sessions = await Promise.all((launcher?.machines ?? []).map((id) => store.getSession(id)));
    const sandboxes = sessions.flatMap((session) => session?.sandboxName ?? []).sort();
    return {
      ...(launcher && { launcher: { pid: launcher.pid, sandboxes } }),
      ...(egress && { egress }),
    };
  }
}

/** refuses keys with other limits than reading, and those of other teams */
function requireReader(caller: Caller, what: string): void {
  requireOperator(caller);
  const { readOnly: _, ...limits } = caller.scope ?? {};
  requireUnlimited({ ...caller, scope: limits }, what);
}

/** refuses every team but the default one, whose key the daemon makes at its first start */
function requireOperator({ teamId }: Caller): void {
  if (teamId === defaultTeam.id) return;
  throw new SandkeepError("forbidden", "Not authorized: this needs a key of the team that runs this daemon");
}
