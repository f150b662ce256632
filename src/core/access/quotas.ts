/**
 * Quotas: how much of the host a team may use at once, and how many sandboxes it may create in a minute. All its sessions
 * that are not over count, also paused ones, which keep their memory. A start that would exceed a quota is refused before
 * anything is stored. A restart of the daemon forgets the creates of the last minute. The disk of a team's images is
 * limited too: an image that would exceed it is not made.
 */

import { OrderedWork } from "../../base/concurrency/ordered-work.ts";
import type { Context } from "../context.ts";
import { SandkeepError } from "../model/errors.ts";
import type { Caller, Quota, Session } from "../model/sandbox.ts";
import { requireAdmin } from "../model/scope.ts";
import { RecentCount } from "./recent-count.ts";

/** What a team uses of each thing that a quota limits. */
export type QuotaUse = Required<Quota>;

type Counted = Pick<Session, "id" | "teamId" | "vcpus" | "memory">;

/** what a start is checked against */
type StartUse = Omit<QuotaUse, "imageDisk">;

const mebibyte = 2 ** 20;

const refusals: Record<keyof StartUse, (most: number) => string> = {
  sandboxes: (most) => `start a sandbox: the team may use ${most} sandboxes at once, and this would be more`,
  vcpus: (most) => `start a sandbox: the team may use ${most} processors at once, and this would be more`,
  memory: (most) => `start a sandbox: the team may use ${most} MiB of memory at once, and this would be more`,
  createsPerMinute: (most) => `create a sandbox: the team may create ${most} in a minute, and this would be more`,
};

export class Quotas {
  readonly #context: Context;
  /** the quota of each team that has started a sandbox; only this daemon uses the store */
  readonly #known = new Map<string, Promise<Quota>>();
  /** sessions that start, which the store may not have yet */
  readonly #starting = new Map<string, Counted>();
  /** checks of one team, one after the other, so that two starts cannot both take the last place */
  readonly #checks = new OrderedWork();
  /** the creates of each team that has created a sandbox */
  readonly #creates = new Map<string, RecentCount>();

  constructor(context: Context) {
    this.#context = context;
  }

  async get({ teamId }: Caller): Promise<{ quota: Quota; use: QuotaUse }> {
    return {
      quota: await this.#quotaOf(teamId),
      use: {
        ...(await this.#useOf(teamId)),
        imageDisk: Math.ceil((await this.#context.runtime.imageBuilds.diskOf(teamId)) / mebibyte),
      },
    };
  }

  /** replaces the whole quota; what runs already goes on */
  async set(caller: Caller, quota: Quota): Promise<{ quota: Quota; use: QuotaUse }> {
    requireAdmin(caller, "a quota");
    const { teamId } = caller;
    await this.#context.store.setQuota(teamId, quota);
    this.#known.delete(teamId);
    return this.get(caller);
  }

  /** call when the team was deleted: it starts nothing more */
  forget(teamId: string): void {
    this.#known.delete(teamId);
  }

  /**
   * counts a session that is about to start, until the result is disposed; throws `limit` if it exceeds the quota. The
   * first session of a sandbox also counts as a create, whether or not it starts
   */
  async reserve({ id, teamId, vcpus, memory }: Counted, { creates = false } = {}): Promise<Disposable> {
    const quota = await this.#quotaOf(teamId);
    const reservation = { [Symbol.dispose]: () => void this.#starting.delete(id) };
    const names = (Object.keys(quota) as (keyof Quota)[]).filter((name) => name !== "imageDisk"); // it has no other members
    if (names.length === 0) {
      if (creates) this.#createsOf(teamId).add();
      return reservation;
    }
    return this.#checks.run(teamId, async () => {
      const session = { id, teamId, vcpus, memory };
      const use = await this.#useOf(teamId, session);
      const wanted = { ...use, createsPerMinute: creates ? use.createsPerMinute + 1 : 0 };
      for (const name of names) {
        const most = quota[name];
        if (most !== undefined && wanted[name] > most) throw beyond(name, most);
      }
      if (creates) this.#createsOf(teamId).add();
      this.#starting.set(id, session);
      return reservation;
    });
  }

  /**
   * makes an image of the team's; throws `limit` if its images would use more of the disk than they may. `bytes` says
   * how much that would be, and is asked only if there is a limit. Images of one team are made one after the other
   */
  async withImageDisk<T>(teamId: string, bytes: () => Promise<number>, make: () => Promise<T>): Promise<T> {
    const { imageDisk: most } = await this.#quotaOf(teamId);
    if (most === undefined) return make();
    return this.#checks.run(`images ${teamId}`, async () => {
      if ((await bytes()) <= most * mebibyte) return make();
      const why = `the team's images may use ${most} MiB of the disk, and this would be more; delete one first`;
      throw new SandkeepError("limit", `Cannot make the image: ${why}`);
    });
  }

  #createsOf(teamId: string): RecentCount {
    const { steady, now } = this.#context;
    const creates = this.#creates.get(teamId) ?? new RecentCount(steady ?? now);
    this.#creates.set(teamId, creates);
    return creates;
  }

  async #useOf(teamId: string, ...more: Counted[]): Promise<StartUse> {
    const sessions = [...(await this.#sessionsOf(teamId)), ...more];
    const sum = (name: "vcpus" | "memory") => sessions.reduce((total, session) => total + session[name], 0);
    const createsPerMinute = this.#creates.get(teamId)?.count ?? 0;
    return { sandboxes: sessions.length, vcpus: sum("vcpus"), memory: sum("memory"), createsPerMinute };
  }

  #quotaOf(teamId: string): Promise<Quota> {
    const known = this.#known.get(teamId);
    if (known) return known;
    const found = this.#context.store.findTeam(teamId).then((team) => {
      if (!team) throw new SandkeepError("gone", "Cannot start a sandbox: its team was deleted");
      return team.quota ?? {};
    });
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

function beyond(name: keyof StartUse, most: number): SandkeepError {
  return new SandkeepError("limit", `Cannot ${refusals[name](most)}`, { about: { kind: "sandbox" } });
}
