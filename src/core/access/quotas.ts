/**
 * Quotas: how much of the host a team may use at once. All its sessions that are not over count, also paused ones, which
 * keep their memory. A start that would exceed a quota is refused before anything is stored.
 */

import { OrderedWork } from "../../base/ordered-work.ts";
import type { Context } from "../context.ts";
import { SandkeepError } from "../model/errors.ts";
import type { Caller, Quota, Session } from "../model/sandbox.ts";
import { requireAdmin } from "../model/scope.ts";

/** What a team uses of each thing that a quota limits. */
export type QuotaUse = Required<Quota>;

type Counted = Pick<Session, "id" | "teamId" | "vcpus" | "memory">;

const units: Record<keyof Quota, string> = { sandboxes: "sandboxes", vcpus: "processors", memory: "MiB of memory" };

export class Quotas {
  readonly #context: Context;
  /** the quota of each team that has started a sandbox; only this daemon uses the store */
  readonly #known = new Map<string, Promise<Quota>>();
  /** sessions that start, which the store may not have yet */
  readonly #starting = new Map<string, Counted>();
  /** checks of one team, one after the other, so that two starts cannot both take the last place */
  readonly #checks = new OrderedWork();

  constructor(context: Context) {
    this.#context = context;
  }

  async get({ teamId }: Caller): Promise<{ quota: Quota; use: QuotaUse }> {
    return { quota: await this.#quotaOf(teamId), use: useOf(await this.#sessionsOf(teamId)) };
  }

  /** replaces the whole quota; what runs already goes on */
  async set(caller: Caller, quota: Quota): Promise<{ quota: Quota; use: QuotaUse }> {
    requireAdmin(caller, "a quota");
    const { teamId } = caller;
    await this.#context.store.setQuota(teamId, quota);
    this.#known.delete(teamId);
    return this.get(caller);
  }

  /** counts a session that is about to start, until the result is disposed; throws `limit` if it exceeds the quota */
  async reserve({ id, teamId, vcpus, memory }: Counted): Promise<Disposable> {
    const quota = await this.#quotaOf(teamId);
    const reservation = { [Symbol.dispose]: () => void this.#starting.delete(id) };
    const names = Object.keys(quota) as (keyof Quota)[]; // a quota has no other members
    if (names.length === 0) return reservation;
    return this.#checks.run(teamId, async () => {
      const session = { id, teamId, vcpus, memory };
      const use = useOf([...(await this.#sessionsOf(teamId)), session]);
      for (const name of names) {
        const most = quota[name];
        if (most !== undefined && use[name] > most) throw beyond(name, most);
      }
      this.#starting.set(id, session);
      return reservation;
    });
  }

  #quotaOf(teamId: string): Promise<Quota> {
    const known = this.#known.get(teamId);
    if (known) return known;
    const found = this.#context.store.findTeam(teamId).then((team) => team?.quota ?? {});
    this.#known.set(teamId, found);
    // A database that was away is asked again.
    found.catch(() => this.#known.delete(teamId));
    return found;
  }

  async #sessionsOf(teamId: string): Promise<Counted[]> {
    const open = (await this.#context.store.openSessions()).filter((session) => session.teamId === teamId);
    const stored = new Set(open.map(({ id }) => id));
    const starting = [...this.#starting.values()].filter((each) => each.teamId === teamId && !stored.has(each.id));
    return [...open, ...starting];
  }
}

function useOf(sessions: readonly Counted[]): QuotaUse {
  const sum = (name: "vcpus" | "memory") => sessions.reduce((total, session) => total + session[name], 0);
  return { sandboxes: sessions.length, vcpus: sum("vcpus"), memory: sum("memory") };
}

function beyond(name: keyof Quota, most: number): SandkeepError {
  const message = `Cannot start a sandbox: the team may use ${most} ${units[name]} at once, and this would be more`;
  return new SandkeepError("limit", message, { about: { kind: "sandbox" } });
}
