/**
 * Deletes teams. A team that still has something is refused, unless the caller insists; then everything goes with it.
 * The team and its keys go first, in one transaction: from then on no caller finds it. A delete that was cut off is
 * completed at the next start. Records of ended sessions go with the next round of pruning, and the audit stays.
 */

import { eachBounded } from "../../base/concurrency/each-bounded.ts";
import type { Builds } from "../builds/builds.ts";
import type { Context } from "../context.ts";
import type { Drives } from "../drives/drives.ts";
import { isSandkeepError, SandkeepError } from "../model/errors.ts";
import type { Caller, Owner } from "../model/sandbox.ts";
import { requireAdmin } from "../model/scope.ts";
import type { Page, PageQuery } from "../ports/store.ts";
import type { Sandboxes } from "../sandboxes/sandboxes.ts";
import type { Secrets } from "../secrets/secrets.ts";
import type { SnapshotService } from "../snapshots/snapshots.ts";
import type { Templates } from "../templates/templates.ts";
import type { Webhooks } from "../webhooks/webhooks.ts";
import { type Access, defaultTeam } from "./access.ts";
import type { Quotas } from "./quotas.ts";

/** The services that know what a team has. */
export interface TeamsOptions {
  access: Pick<Access, "forgetTeam">;
  quotas: Pick<Quotas, "forget">;
  sandboxes: Pick<Sandboxes, "list" | "count" | "delete">;
  snapshots: Pick<SnapshotService, "list" | "delete">;
  drives: Pick<Drives, "list" | "delete">;
  builds: Pick<Builds, "list" | "delete">;
  templates: Pick<Templates, "list" | "delete">;
  secrets: Pick<Secrets, "list" | "delete">;
  webhooks: Pick<Webhooks, "forget">;
}

/** sandboxes deleted at a time */
const atOnce = 8;
const batch = 100;

export class Teams {
  readonly #context: Context;
  readonly #options: TeamsOptions;

  constructor(context: Context, options: TeamsOptions) {
    this.#context = context;
    this.#options = options;
  }

  /** completes what an earlier daemon began */
  async open(): Promise<void> {
    for (const { id } of await this.#context.store.listTeams({ deleted: true })) await this.#empty(id);
  }

  /** throws `conflict` if the team has something, unless `force` */
  async delete(caller: Caller, idOrSlug: string, { force = false }: { force?: boolean } = {}): Promise<void> {
    requireAdmin(caller, "deleting a team");
    const { store, now } = this.#context;
    const team = await store.findTeam(idOrSlug);
    if (!team) throw new SandkeepError("not-found", `There is no team "${idOrSlug}"`);
    if (team.id === defaultTeam.id) throw refusal(team.slug, "it is the daemon's first, which always exists");
    if (team.id === caller.teamId) throw refusal(team.slug, "this key belongs to it");
    const there = force ? [] : await this.#contentOf(team.id);
    if (there.length > 0) throw refusal(team.slug, `it has ${there.join(", ")}; delete them first, or use force`);
    const keys = (await store.listKeys(team.id)).map(({ id }) => id);
    if (!(await store.deleteTeam(team.id, now())))
      throw new SandkeepError("not-found", `There is no team "${idOrSlug}"`);
    this.#options.access.forgetTeam(keys);
    this.#options.quotas.forget(team.id);
    await this.#empty(team.id);
  }

  /** what keeps a team from being deleted, in words */
  async #contentOf(teamId: string): Promise<string[]> {
    const { sandboxes, snapshots, drives, builds, templates } = this.#options;
    const owners = await this.#ownersOf(teamId);
    const sum = async (count: (owner: Owner) => Promise<number>) =>
      (await Promise.all(owners.map(count))).reduce((total, each) => total + each, 0);
    const some = { limit: batch, order: "asc" } as const;
    const counts = {
      sandbox: await sum((owner) => sandboxes.count(owner, {})),
      snapshot: await sum(async (owner) => (await snapshots.list(owner, { ...some, there: true })).items.length),
      drive: await sum(async (owner) => (await drives.list(owner, { ...some, sortBy: "name" })).items.length),
      template: (await templates.list({ teamId }, some)).items.length,
      image: ownOf(teamId, await builds.list({ teamId })).length,
    };
    return Object.entries(counts)
      .filter(([, count]) => count > 0)
      .map(([noun, count]) => `${count} ${count === 1 ? noun : noun.replace(/x?$/, (end) => (end ? "xes" : "s"))}`);
  }

  async #empty(teamId: string): Promise<void> {
    const { sandboxes, snapshots, drives, builds, templates, secrets, webhooks } = this.#options;
    const team = { teamId };
    for (const owner of await this.#ownersOf(teamId)) {
      await this.#each(
        (page) => sandboxes.list(owner, { ...page, sortBy: "createdAt" }),
        ({ name }) => sandboxes.delete(owner, name, { orphanSnapshots: true }),
      );
      await this.#each(
        (page) => snapshots.list(owner, { ...page, there: true }),
        ({ id }) => snapshots.delete(owner, id),
      );
      await this.#each(
        (page) => drives.list(owner, { ...page, sortBy: "createdAt" }),
        ({ name }) => drives.delete(owner, name),
      );
    }
    for (const { projectId } of await this.#ownersOf(teamId)) {
      await webhooks.forget(projectId);
      await this.#context.events.forget(projectId);
    }
    await this.#each(
      (page) => templates.list(team, page),
      ({ template }) => templates.delete(team, template.id),
    );
    await this.#each(
      (page) => secrets.list(team, page),
      ({ id }) => secrets.delete(team, id),
    );
    await this.#each(
      async () => ({ items: ownOf(teamId, await builds.list(team)) }),
      ({ name }) => builds.delete(team, name),
    );
  }

  /** deletes all items of a list; logs what fails, which the next start tries again */
  async #each<T>(list: (page: PageQuery) => Promise<Page<T>>, remove: (item: T) => Promise<unknown>): Promise<void> {
    let cursor: string | undefined;
    do {
      const { items, next } = await list({ limit: batch, order: "asc", ...(cursor !== undefined && { cursor }) });
      await eachBounded(atOnce, items, (item) =>
        remove(item).catch((error) => {
          if (!isSandkeepError(error, "not-found")) this.#context.logError(error);
        }),
      );
      cursor = next;
    } while (cursor !== undefined);
  }

  async #ownersOf(teamId: string): Promise<Owner[]> {
    return (await this.#context.store.listProjects(teamId)).map(({ id }) => ({ teamId, projectId: id }));
  }
}

/** the images that belong to the team, and not to the host */
function ownOf<T extends { owner?: string | undefined }>(teamId: string, images: T[]): T[] {
  return images.filter(({ owner }) => owner === teamId);
}

function refusal(slug: string, why: string): SandkeepError {
  return new SandkeepError("conflict", `Cannot delete team "${slug}": ${why}`);
}
