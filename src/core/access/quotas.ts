/**
 * Quotas: how much of the host a team, or the sandboxes that one key made, may use at once, and how many sandboxes they
 * may create in a minute. All sessions that are not over count, also paused ones, which keep their memory. A start that
 * would exceed a quota is refused before anything is stored. A restart of the daemon forgets the creates of the last
 * minute. The disk of a team's images is limited too: an image that would exceed it is not made.
 */

import { keepLast } from "../../base/bounded-map.ts";
import { OrderedWork } from "../../base/concurrency/ordered-work.ts";
import type { Context } from "../context.ts";
import { SandkeepError } from "../model/errors.ts";
import type { Caller, Quota, Sandbox, Session } from "../model/sandbox.ts";
import { requireAdmin, requireUnlimited } from "../model/scope.ts";
import { RecentCount } from "./recent-count.ts";

/** What a team uses of each thing that a quota limits. */
export type QuotaUse = Required<Quota>;

/** What the sandboxes of a key use. */
export type KeyQuotaUse = Omit<QuotaUse, "imageDisk">;

type Counted = Pick<Session, "id" | "teamId" | "sandboxId" | "vcpus" | "memory">;

/** whose use is limited: a team, or a key */
interface Holder {
  teamId: string;
  keyId?: string;
  /** whether its sandboxes may be in every team */
  isAdmin?: boolean;
  /** as people know it */
  name: string;
  quota: Quota;
}

const mebibyte = 2 ** 20;
/** most sandboxes whose makers are remembered */
const mostMakers = 10_000;

type Words = (holder: string, most: number, use: number) => string;
const refusals: Record<keyof KeyQuotaUse, Words> = {
  sandboxes: (holder, most, use) =>
    `start a sandbox: ${holder} may use ${most} sandboxes at once and uses ${use}, so this would be more`,
  vcpus: (holder, most, use) =>
    `start a sandbox: ${holder} may use ${most} processors at once and uses ${use}, so this would be more`,
  memory: (holder, most, use) =>
    `start a sandbox: ${holder} may use ${most} MiB of memory at once and uses ${use}, so this would be more`,
  createsPerMinute: (holder, most, use) =>
    `create a sandbox: ${holder} may create ${most} in a minute and has created ${use}, so this would be more`,
  disk: (holder, most, use) =>
    `use more of the disk: ${holder} may use ${most} MiB with its sandboxes and snapshots and uses ${use}`,
};

export class Quotas {
  readonly #context: Context;
  /** of each team and key that has started a sandbox; only this daemon uses the store */
  readonly #known = new Map<string, Promise<Holder>>();
  /** sessions that start, which the store may not have yet, and the keys that made their sandboxes */
  readonly #starting = new Map<string, { session: Counted; keyId: string | undefined }>();
  /** checks of one team or key, one after the other, so that two starts cannot both take the last place */
  readonly #checks = new OrderedWork();
  /** the creates of each team and key that has created a sandbox */
  readonly #creates = new Map<string, RecentCount>();
  /** the keys that made sandboxes, which never change, by the sandbox's id; "" for none */
  readonly #makers = new Map<string, string>();

  constructor(context: Context) {
    this.#context = context;
  }

  async get({ teamId }: Caller): Promise<{ quota: Quota; use: QuotaUse }> {
    const holder = await this.#team(teamId);
    const imageDisk = Math.ceil((await this.#context.runtime.imageBuilds.diskOf(teamId)) / mebibyte);
    return { quota: holder.quota, use: { ...(await this.#useOf(holder)), imageDisk } };
  }

  /** replaces the whole quota; what runs already goes on */
  async set(caller: Caller, quota: Quota): Promise<{ quota: Quota; use: QuotaUse }> {
    requireAdmin(caller, "a quota");
    const { teamId } = caller;
    await this.#context.store.setQuota(teamId, quota);
    this.#known.delete(teamId);
    return this.get(caller);
  }

  /** the quota of a key of the team; every key sees its own */
  async getOfKey(caller: Caller, keyId: string): Promise<{ quota: Quota; use: KeyQuotaUse }> {
    if (caller.keyId !== keyId) requireUnlimited(caller, "the quota of a key");
    await this.#requireKey(caller, keyId);
    const holder = await this.#key(keyId);
    return { quota: holder.quota, use: await this.#useOf(holder) };
  }

  /** replaces the whole quota of a key, which counts besides that of the team */
  async setOfKey(caller: Caller, keyId: string, quota: Quota): Promise<{ quota: Quota; use: KeyQuotaUse }> {
    requireUnlimited(caller, "the quota of a key");
    const { admin } = await this.#requireKey(caller, keyId);
    if (admin) requireAdmin(caller, "the quota of an admin key");
    await this.#context.store.setKeyQuota(keyId, quota);
    this.#known.delete(keyId);
    return this.getOfKey(caller, keyId);
  }

  /** call when the team was deleted: it starts nothing more */
  forget(teamId: string): void {
    this.#known.delete(teamId);
  }

  /**
   * counts a session that is about to start, until the result is disposed; throws `limit` if it exceeds a quota. The
   * first session of a sandbox also counts as a create, whether or not it starts
   */
  async reserve(given: Counted, { madeBy }: Pick<Sandbox, "madeBy">, { creates = false } = {}): Promise<Disposable> {
    const { id, teamId, sandboxId, vcpus, memory } = given;
    const session = { id, teamId, sandboxId, vcpus, memory };
    const holders = await this.#holdersOf(teamId, madeBy?.keyId);
    const reservation = { [Symbol.dispose]: () => void this.#starting.delete(id) };
    const isLimited = holders.some(({ quota }) => limitsOf(quota).length > 0);
    const check = async () => {
      for (const holder of isLimited ? holders : []) await this.#requireStart(holder, session, creates);
      for (const holder of creates ? holders : []) this.#createsOf(holder).add();
      if (isLimited) this.#starting.set(id, { session, keyId: madeBy?.keyId });
      return reservation;
    };
    if (!isLimited) return check();
    // Always the team first, so that no two checks wait for each other.
    return this.#checks.run(teamId, () =>
      madeBy?.keyId === undefined ? check() : this.#checks.run(madeBy.keyId, check),
    );
  }

  /** throws `limit` if the team, or the key that made the sandbox, uses all of the disk that it may; before a snapshot */
  async requireDisk({ teamId, sandboxId }: Pick<Session, "teamId" | "sandboxId">): Promise<void> {
    const team = await this.#team(teamId);
    const maker = await this.#makersOf([sandboxId]);
    const keyId = maker.get(sandboxId);
    for (const holder of [team, ...(keyId ? [await this.#key(keyId)] : [])]) {
      const { disk: most } = holder.quota;
      if (most === undefined) continue;
      const use = await this.#diskOf(holder, await this.#sessionsOf(holder));
      if (use >= most) throw beyond("disk", holder.name, most, use);
    }
  }

  /**
   * makes an image of the team's; throws `limit` if its images would use more of the disk than they may. `bytes` says
   * how much that would be, and is asked only if there is a limit. Images of one team are made one after the other
   */
  async withImageDisk<T>(teamId: string, bytes: () => Promise<number>, make: () => Promise<T>): Promise<T> {
    const { imageDisk: most } = (await this.#team(teamId)).quota;
    if (most === undefined) return make();
    return this.#checks.run(`images ${teamId}`, async () => {
      if ((await bytes()) <= most * mebibyte) return make();
      const why = `the team's images may use ${most} MiB of the disk, and this would be more; delete one first`;
      throw new SandkeepError("limit", `Cannot make the image: ${why}`);
    });
  }

  async #requireStart(holder: Holder, session: Counted, creates: boolean): Promise<void> {
    const use = await this.#useOf(holder, { withDisk: holder.quota.disk !== undefined });
    const more = { sandboxes: 1, vcpus: session.vcpus, memory: session.memory, createsPerMinute: 1, disk: 0 };
    for (const name of limitsOf(holder.quota)) {
      const most = holder.quota[name];
      if (most === undefined || (name === "createsPerMinute" && !creates)) continue;
      const isFull = name === "disk" && use.disk >= most;
      if (isFull || use[name] + more[name] > most) throw beyond(name, holder.name, most, use[name]);
    }
  }

  #createsOf({ teamId, keyId = teamId }: Holder): RecentCount {
    const { steady, now } = this.#context;
    const creates = this.#creates.get(keyId) ?? new RecentCount(steady ?? now);
    this.#creates.set(keyId, creates);
    return creates;
  }

  /** the disk takes longer: each machine is asked */
  async #useOf(holder: Holder, { withDisk = true } = {}): Promise<KeyQuotaUse> {
    const sessions = await this.#sessionsOf(holder);
    const sum = (name: "vcpus" | "memory") => sessions.reduce((total, session) => total + session[name], 0);
    return {
      sandboxes: sessions.length,
      vcpus: sum("vcpus"),
      memory: sum("memory"),
      createsPerMinute: this.#creates.get(holder.keyId ?? holder.teamId)?.count ?? 0,
      disk: withDisk ? await this.#diskOf(holder, sessions) : 0,
    };
  }

  /** MiB of the files of its sandboxes that run, as far as known, and of their snapshots */
  async #diskOf({ teamId, keyId, isAdmin }: Holder, sessions: readonly Counted[]): Promise<number> {
    const { runtime, store } = this.#context;
    const machines = await Promise.all(
      sessions.map(
        async ({ id }) =>
          (
            await runtime
              .machine(id)
              ?.usage()
              .catch(() => undefined)
          )?.disk ?? 0,
      ),
    );
    const kept = await store.snapshotBytes({ ...(!isAdmin && { teamId }), ...(keyId !== undefined && { keyId }) });
    return Math.ceil(machines.reduce((sum, bytes) => sum + bytes, kept) / mebibyte);
  }

  async #holdersOf(teamId: string, keyId: string | undefined): Promise<Holder[]> {
    return [await this.#team(teamId), ...(keyId === undefined ? [] : [await this.#key(keyId)])];
  }

  #team(teamId: string): Promise<Holder> {
    return this.#holder(teamId, async () => {
      const team = await this.#context.store.findTeam(teamId);
      if (!team) throw new SandkeepError("gone", "Cannot start a sandbox: its team was deleted");
      return { teamId, name: "the team", quota: team.quota ?? {} };
    });
  }

  /** a key that was deleted limits nothing */
  #key(keyId: string): Promise<Holder> {
    return this.#holder(keyId, async () => {
      const key = await this.#context.store.getKey(keyId);
      const isAdmin = key?.admin ?? false;
      return { teamId: key?.teamId ?? "", keyId, isAdmin, name: `key "${keyId}"`, quota: key?.quota ?? {} };
    });
  }

  #holder(id: string, find: () => Promise<Holder>): Promise<Holder> {
    const known = this.#known.get(id);
    if (known) return known;
    const found = find();
    this.#known.set(id, found);
    // A database that was away is asked again.
    found.catch(() => this.#known.delete(id));
    return found;
  }

  async #requireKey({ teamId }: Caller, keyId: string) {
    const key = await this.#context.store.getKey(keyId);
    if (key?.teamId !== teamId) throw new SandkeepError("not-found", `There is no key "${keyId}"`);
    return key;
  }

  async #sessionsOf({ teamId, keyId, isAdmin }: Holder): Promise<Counted[]> {
    const isOfTeam = (session: Counted) => isAdmin || session.teamId === teamId;
    const open = (await this.#context.store.openSessions()).filter(isOfTeam);
    const stored = new Set(open.map(({ id }) => id));
    const starting = [...this.#starting.values()].filter(({ session }) => isOfTeam(session) && !stored.has(session.id));
    if (keyId === undefined) return [...open, ...starting.map(({ session }) => session)];
    const makers = await this.#makersOf(open.map(({ sandboxId }) => sandboxId));
    const own = starting.filter((each) => each.keyId === keyId);
    return [...open.filter(({ sandboxId }) => makers.get(sandboxId) === keyId), ...own.map(({ session }) => session)];
  }

  async #makersOf(sandboxIds: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const missing = sandboxIds.filter((id) => !this.#makers.has(id));
    const found = missing.length === 0 ? [] : await this.#context.store.getSandboxes(missing);
    const all = new Map(sandboxIds.map((id) => [id, this.#makers.get(id) ?? ""]));
    for (const { id, madeBy } of found) {
      all.set(id, madeBy?.keyId ?? "");
      this.#makers.set(id, madeBy?.keyId ?? "");
    }
    keepLast(this.#makers, mostMakers);
    return all;
  }
}

/** the limits of starts */
function limitsOf(quota: Quota): (keyof KeyQuotaUse)[] {
  const names = Object.keys(quota) as (keyof Quota)[]; // it has no other members
  return names.filter((name) => name !== "imageDisk");
}

function beyond(name: keyof KeyQuotaUse, holder: string, most: number, use: number): SandkeepError {
  const words = `Cannot ${refusals[name](holder, most, use)} (quota "${name}")`;
  return new SandkeepError("limit", words, { about: { kind: "sandbox" } });
}
