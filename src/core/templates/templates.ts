/** Templates of a team: request and start their builds, find, tag, publish and delete them. */

import { FairSemaphore } from "../../base/concurrency/fair-semaphore.ts";
import type { Builds } from "../builds/builds.ts";
import type { Context } from "../context.ts";
import { memoryPerVcpu } from "../context.ts";
import type { WantedImage } from "../images/images.ts";
import { isSandkeepError, SandkeepError } from "../model/errors.ts";
import { imageKey } from "../model/image.ts";
import type { Caller, Owner } from "../model/sandbox.ts";
import {
  defaultTag,
  isTemplateId,
  type Template,
  type TemplateBuild,
  type TemplateLogLine,
  type TemplateTag,
  templateImage,
} from "../model/template.ts";
import type { Page, PageQuery } from "../ports/store.ts";
import type { TemplateLogQuery } from "../ports/template-records.ts";
import { newTemplateName, parseTemplateName, tagsOf } from "./template-names.ts";
import { type Recipe, TemplateRuns } from "./template-runs.ts";

export interface TemplateRequest {
  /** [team/]name[:tag]; a template of that name gets a further build */
  name: string;
  tags?: readonly string[] | undefined;
  vcpus?: number | undefined;
  /** MiB */
  memory?: number | undefined;
}

export interface RequestedBuild {
  template: Template;
  build: TemplateBuild;
}

/** A template with the newest of its builds. */
export interface ListedTemplate {
  template: Template;
  newest: TemplateBuild | undefined;
  buildCount: number;
}

/** What a sandbox of a template begins with. */
export interface UsableTemplate extends RequestedBuild {
  image: WantedImage;
}

/** all builds of a template that can be there */
const allBuilds = 1000;
/** most builds of a team that run or wait for their turn */
const mostOpen = 20;
/** builds of a template that are remembered besides those that tags name */
const mostRemembered = 50;
/** most templates of a team, and most tags of a template */
const mostTemplates = 1000;
const mostTags = 500;

export class Templates {
  readonly #context: Context;
  readonly #runs: TemplateRuns;
  readonly #turns = new FairSemaphore({ ofTeam: mostOpen });

  constructor(context: Context, builds: Builds) {
    this.#context = context;
    this.#runs = new TemplateRuns(context, builds);
  }

  open(): Promise<void> {
    return this.#runs.open();
  }

  close(): Promise<void> {
    return this.#runs.close();
  }

  /** a build that waits for its recipe, of a template that exists or is made */
  async request({ teamId }: Owner, wanted: TemplateRequest): Promise<RequestedBuild> {
    const { limits, store } = this.#context;
    const { team, name, tags } = newTemplateName(wanted.name, wanted.tags ?? []);
    if (team !== undefined && (await store.findTeam(team))?.id !== teamId) {
      throw new SandkeepError("forbidden", `Cannot create the template "${team}/${name}": it would be another team's`);
    }
    const template = await this.#getOrCreate(teamId, name);
    const vcpus = wanted.vcpus ?? limits.defaultVcpus;
    const memory = wanted.memory ?? vcpus * memoryPerVcpu;
    return { template, build: await this.#insertBuild(template, { tags, vcpus, memory }) };
  }

  /** starts a build that waits; it goes on when the caller has gone */
  async start(owner: Owner, templateId: string, buildId: string, recipe: Recipe): Promise<TemplateBuild> {
    const { store, now } = this.#context;
    const { build } = await this.#build(owner, templateId, buildId);
    const release = this.#turns.tryEnter(owner.teamId);
    if (!release) {
      throw new SandkeepError("limit", `Cannot build the template: ${mostOpen} builds of the team run already`);
    }
    let ended: Promise<void> | undefined;
    try {
      const building = await store.moveTemplateBuild(build.id, ["waiting"], "building", { updatedAt: now() });
      if (!building) {
        throw new SandkeepError("conflict", `Cannot start build "${buildId}": it was started already`);
      }
      ended = this.#runs.start(owner, building, recipe);
      return building;
    } finally {
      if (ended) void ended.then(release);
      else release();
    }
  }

  async build(caller: Caller, templateId: string, buildId: string): Promise<TemplateBuild> {
    return (await this.#build(caller, templateId, buildId)).build;
  }

  async log(
    caller: Caller,
    templateId: string,
    query: TemplateLogQuery,
  ): Promise<{ build: TemplateBuild; lines: TemplateLogLine[] }> {
    // The state is read first: a build that is over has written all of its lines.
    const { build } = await this.#build(caller, templateId, query.buildId);
    return { build, lines: await this.#context.store.templateLog(query) };
  }

  /** by id or name */
  async get(caller: Caller, idOrName: string): Promise<Template> {
    const parsed = parseTemplateName(idOrName);
    const found = parsed && (await this.#find(caller, parsed));
    if (found?.teamId !== caller.teamId) throw notThere(idOrName);
    return found;
  }

  /** whose template this is; undefined if there is none, or if it is another team's and not public */
  async lookUp(caller: Caller, name: string): Promise<Template | undefined> {
    const parsed = parseTemplateName(name);
    return parsed && this.#find(caller, parsed);
  }

  async list({ teamId }: Caller, query: PageQuery): Promise<Page<ListedTemplate>> {
    const { items, ...page } = await this.#context.store.listTemplates({ ...query, teamId });
    return { ...page, items: await Promise.all(items.map((template) => this.#listed(template))) };
  }

  /** newest first; `cursor`: id of the last build of the page before */
  async builds(
    caller: Caller,
    idOrName: string,
    { limit, cursor }: { limit: number; cursor?: string },
  ): Promise<{ template: Template; builds: TemplateBuild[]; next?: string }> {
    const template = await this.get(caller, idOrName);
    const all = await this.#context.store.templateBuilds(template.id, allBuilds);
    const before = all.findIndex(({ id }) => id === cursor);
    if (cursor !== undefined && before < 0) {
      throw new SandkeepError("invalid", "Cannot continue the list: no build of the template has the cursor's id");
    }
    const builds = all.slice(before + 1, before + 1 + limit);
    const last = builds.at(-1);
    return { template, builds, ...(last && last !== all.at(-1) && { next: last.id }) };
  }

  async tags(caller: Caller, idOrName: string): Promise<TemplateTag[]> {
    return this.#context.store.templateTags((await this.get(caller, idOrName)).id);
  }

  /** gives further tags to the build that a name and tag stand for */
  async assignTags(caller: Caller, target: string, tags: readonly string[]): Promise<TemplateTag[]> {
    const { store, now } = this.#context;
    const wanted = tagsOf(tags);
    const template = await this.get(caller, target);
    const build = await this.#tagged(template, parseTemplateName(target)?.tag);
    if (!build) throw notThere(target);
    const there = (await store.templateTags(template.id)).map(({ tag }) => tag);
    if (new Set([...there, ...wanted]).size > mostTags) {
      throw new SandkeepError("limit", `Cannot tag the template "${template.name}": it may have ${mostTags} tags`);
    }
    const at = now();
    await store.setTemplateTags(template.id, wanted, build.id, at);
    await this.#runs.forgetUnnamed(template.id).catch(this.#context.logError);
    return wanted.map((tag) => ({ tag, buildId: build.id, createdAt: at }));
  }

  async removeTags(caller: Caller, idOrName: string, tags: readonly string[]): Promise<void> {
    const { store } = this.#context;
    const wanted = tagsOf(tags);
    const template = await this.get(caller, idOrName);
    const there = (await store.templateTags(template.id)).map(({ tag }) => tag);
    const missing = wanted.find((tag) => !there.includes(tag));
    if (missing !== undefined) throw notThere(`${template.name}:${missing}`);
    await store.deleteTemplateTags(template.id, wanted);
    await this.#runs.forgetUnnamed(template.id).catch(this.#context.logError);
  }

  async publish(caller: Caller, idOrName: string, isPublic: boolean): Promise<Template> {
    const { id } = await this.get(caller, idOrName);
    const updated = await this.#context.store.updateTemplate(id, { isPublic, updatedAt: this.#context.now() });
    if (!updated) throw notThere(idOrName);
    return updated;
  }

  /** sandboxes that were made from it go on */
  async delete(caller: Caller, idOrName: string): Promise<void> {
    const { store, runtime } = this.#context;
    const { id } = await this.get(caller, idOrName);
    if (!(await store.deleteTemplate(id))) throw notThere(idOrName);
    const prefix = templateImage({ templateId: id, id: "" });
    const images = (await runtime.images.list(caller.teamId)).filter(({ name }) => name.startsWith(prefix));
    for (const image of images) {
      await runtime.images.delete(imageKey(image)).catch((error) => {
        if (!isSandkeepError(error, "not-found")) throw error;
      });
    }
  }

  /**
   * what a sandbox begins with; undefined if there is no such template. Throws if it has no build that is ready.
   * `counts`: whether a sandbox is made now
   */
  async use(caller: Caller, name: string, { counts = false } = {}): Promise<UsableTemplate | undefined> {
    const { store, now, logError } = this.#context;
    const parsed = parseTemplateName(name);
    const template = parsed && (await this.#find(caller, parsed));
    if (!template) return undefined;
    const build = await this.#tagged(template, parsed.tag);
    if (!build) {
      const tag = parsed.tag ?? defaultTag;
      throw new SandkeepError(
        "not-found",
        `Template "${name}" not found: it has no finished build with the tag "${tag}"`,
      );
    }
    if (counts) await store.addTemplateSpawn(template.id, now()).catch(logError);
    const image = templateImage(build);
    return { template, build, image: { name: image, candidates: [image], owner: template.teamId } };
  }

  async #find({ teamId }: Caller, { team, name }: { team?: string; name: string }): Promise<Template | undefined> {
    const { store } = this.#context;
    const mayBeId = team === undefined && isTemplateId(name);
    const withId = mayBeId ? await store.getTemplate(name) : undefined;
    // An id of the team's own comes first: no name can take its place.
    if (withId?.teamId === teamId) return withId;
    const owner = team === undefined ? teamId : (await store.findTeam(team))?.id;
    const found = (owner === undefined ? undefined : await store.findTemplate(owner, name)) ?? withId;
    return found && (found.teamId === teamId || found.isPublic) ? found : undefined;
  }

  /** the ready build that a tag names */
  async #tagged({ id }: Template, tag: string | undefined): Promise<TemplateBuild | undefined> {
    const { store } = this.#context;
    const tags = await store.templateTags(id);
    const found = tags.find((each) => each.tag === (tag ?? defaultTag));
    const build = found && (await store.getTemplateBuild(found.buildId));
    return build?.state === "ready" ? build : undefined;
  }

  async #listed(template: Template): Promise<ListedTemplate> {
    const { store } = this.#context;
    const [newest] = await store.templateBuilds(template.id, 1);
    return { template, newest, buildCount: await store.countTemplateBuilds(template.id) };
  }

  async #build(caller: Caller, templateId: string, buildId: string): Promise<RequestedBuild> {
    const { store } = this.#context;
    const template = await store.getTemplate(templateId);
    const build = await store.getTemplateBuild(buildId);
    if (template?.teamId !== caller.teamId || build?.templateId !== template.id) {
      throw new SandkeepError("not-found", `Build "${buildId.slice(0, 128)}" not found`);
    }
    return { template, build };
  }

  async #getOrCreate(teamId: string, name: string): Promise<Template> {
    const { store, ids, now } = this.#context;
    const there = await store.findTemplate(teamId, name);
    if (there) return there;
    if ((await store.countTemplates(teamId)) >= mostTemplates) {
      throw new SandkeepError("limit", `Cannot create the template "${name}": the team has ${mostTemplates} of them`);
    }
    const at = now();
    const template = { id: ids.template(), teamId, name, isPublic: false, createdAt: at, updatedAt: at, spawns: 0 };
    try {
      await store.insertTemplate(template);
      return template;
    } catch (error) {
      const other = isSandkeepError(error, "exists") ? await store.findTemplate(teamId, name) : undefined;
      if (!other) throw error;
      return other;
    }
  }

  async #insertBuild(
    { id: templateId }: Template,
    facts: Pick<TemplateBuild, "tags" | "vcpus" | "memory">,
  ): Promise<TemplateBuild> {
    const { store, ids, now } = this.#context;
    await store.pruneTemplateBuilds(templateId, mostRemembered);
    const at = now();
    const build: TemplateBuild = {
      id: ids.build(),
      templateId,
      state: "waiting",
      ...facts,
      createdAt: at,
      updatedAt: at,
    };
    await store.insertTemplateBuild(build);
    return build;
  }
}

function notThere(name: string): SandkeepError {
  return new SandkeepError("not-found", `Template "${name.slice(0, 128)}" not found`);
}
