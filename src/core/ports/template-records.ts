/** The store's methods for templates and secrets; the rules of store.ts apply. */

import type { Secret } from "../model/secret.ts";
import type {
  LogLevel,
  Template,
  TemplateBuild,
  TemplateBuildState,
  TemplateLogLine,
  TemplateTag,
} from "../model/template.ts";
import type { Page, PageQuery } from "./store.ts";

export interface TemplateRecords {
  /** throws `exists` if the team has a template of that name */
  insertTemplate(template: Template): Promise<void>;
  getTemplate(id: string): Promise<Template | undefined>;
  findTemplate(teamId: string, name: string): Promise<Template | undefined>;
  listTemplates(query: TeamPageQuery): Promise<Page<Template>>;
  countTemplates(teamId: string): Promise<number>;
  /** undefined if it is gone */
  updateTemplate(id: string, changes: Partial<Pick<Template, "isPublic" | "updatedAt">>): Promise<Template | undefined>;
  /** counts a sandbox that was made from it */
  addTemplateSpawn(id: string, at: number): Promise<void>;
  /** deletes it with its builds, tags and logs; false if it is gone */
  deleteTemplate(id: string): Promise<boolean>;

  insertTemplateBuild(build: TemplateBuild): Promise<void>;
  getTemplateBuild(id: string): Promise<TemplateBuild | undefined>;
  /** moves a build to a state if it is in one of the `from` states; undefined if it is in another one, or gone */
  moveTemplateBuild(
    id: string,
    from: readonly TemplateBuildState[],
    to: TemplateBuildState,
    changes: Partial<Pick<TemplateBuild, "reason" | "updatedAt" | "finishedAt">>,
  ): Promise<TemplateBuild | undefined>;
  /**
   * moves a build that is building to ready, and points its tags at it; undefined if it is in another state or gone
   */
  finishTemplateBuild(id: string, at: number): Promise<TemplateBuild | undefined>;
  /** newest first */
  templateBuilds(templateId: string, limit: number): Promise<TemplateBuild[]>;
  countTemplateBuilds(templateId: string): Promise<number>;
  /**
   * deletes builds and their logs, except the newest ones, those that a tag names and those that run; how many went. One
   * call may leave some of them to the next one
   */
  pruneTemplateBuilds(templateId: string, keep: number): Promise<number>;
  /** builds in these states, of all teams */
  templateBuildsIn(states: readonly TemplateBuildState[]): Promise<TemplateBuild[]>;

  /** points tags at a build, whatever they named before */
  setTemplateTags(templateId: string, tags: readonly string[], buildId: string, at: number): Promise<void>;
  /** how many of them there were */
  deleteTemplateTags(templateId: string, tags: readonly string[]): Promise<number>;
  /** newest first */
  templateTags(templateId: string): Promise<TemplateTag[]>;

  /** adds lines of a build's log; `number` is that of the first, from 0. Lines that are there already stay as they are */
  addTemplateLog(buildId: string, number: number, lines: readonly TemplateLogLine[]): Promise<void>;
  templateLog(query: TemplateLogQuery): Promise<TemplateLogLine[]>;
}

export interface TemplateLogQuery {
  buildId: string;
  /** the least important level */
  level: LogLevel;
  order: "asc" | "desc";
  limit: number;
  /** lines of that level to pass over */
  offset?: number;
  /** only lines from this time on in ascending order, or up to it in descending order */
  from?: number;
}

export interface SecretRecords {
  /** throws `exists` if the team has a secret of that name */
  insertSecret(secret: Secret): Promise<void>;
  findSecret(teamId: string, idOrName: string): Promise<Secret | undefined>;
  /** replaces the value and counts its version; undefined if it is gone */
  updateSecret(id: string, changes: Partial<Pick<Secret, "metadata">> & SecretChange): Promise<Secret | undefined>;
  deleteSecret(id: string): Promise<boolean>;
  listSecrets(query: TeamPageQuery): Promise<Page<Secret>>;
  countSecrets(teamId: string): Promise<number>;
}

type SecretChange = Pick<Secret, "value" | "updatedAt">;

/** A page of a team's list, in order of creation. */
export interface TeamPageQuery extends PageQuery {
  teamId: string;
}
