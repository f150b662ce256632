/**
 * Templates: names of a team for images that it builds. Each build makes one image, and each tag names one build.
 *
 *   waiting ──► building ──► ready
 *      └──────────┴────────► failed
 *
 * waiting   the build was requested; its steps are not known yet
 * building  its steps run; a daemon that finds such a build when it starts moves it to failed
 * ready     its image exists, unless the template was deleted
 * failed    it has a reason and no image
 */

export interface Template {
  id: string;
  teamId: string;
  /** unique within its team */
  name: string;
  /** whether other teams may use it */
  isPublic: boolean;
  createdAt: number;
  updatedAt: number;
  /** sandboxes that were made from it */
  spawns: number;
  lastSpawnedAt?: number;
}

export type TemplateBuildState = "waiting" | "building" | "ready" | "failed";

export interface TemplateBuild {
  /** a UUID */
  id: string;
  templateId: string;
  state: TemplateBuildState;
  /** tags that the build gets when it is ready */
  tags: string[];
  vcpus: number;
  /** MiB */
  memory: number;
  /** why it failed */
  reason?: TemplateBuildReason;
  createdAt: number;
  updatedAt: number;
  finishedAt?: number;
}

export interface TemplateBuildReason {
  message: string;
  /** number of the step that failed, from 1; 0 for what precedes the steps */
  step?: number;
  /** whether the steps were done, and the start command failed */
  during?: "start";
}

export interface TemplateTag {
  tag: string;
  buildId: string;
  createdAt: number;
}

export interface TemplateLogLine {
  at: number;
  level: LogLevel;
  message: string;
  /** as in TemplateBuildReason */
  step?: number;
}

/** from the least to the most important */
export const logLevels = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof logLevels)[number];

/** the tag of a build that names none */
export const defaultTag = "default";

/** whether a text has the form of a template's id */
export function isTemplateId(text: string): boolean {
  return /^[a-z0-9]{20}$/.test(text);
}

/** the name of the image that a build makes */
export function templateImage({ id, templateId }: Pick<TemplateBuild, "id" | "templateId">): string {
  return `templates/${templateId}:${id}`;
}

/** the id of the template whose image has this name */
export function templateOfImage(imageName: string): string | undefined {
  return /^templates\/([a-z0-9]+):/.exec(imageName)?.[1];
}
