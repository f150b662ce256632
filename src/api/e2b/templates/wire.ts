/** Prints templates, their builds and logs as E2B's JSON. */

import type {
  Template,
  TemplateBuild,
  TemplateBuildState,
  TemplateLogLine,
  TemplateTag,
} from "../../../core/model/template.ts";
import type { ListedTemplate } from "../../../core/templates/templates.ts";
import { envdVersion, time } from "../wire.ts";

const statuses: Record<TemplateBuildState, string> = {
  waiting: "waiting",
  building: "building",
  ready: "ready",
  failed: "error",
};

/** `slug`: of the template's team */
export function requested(template: Template, build: TemplateBuild, slug: string): object {
  return { templateID: template.id, buildID: build.id, ...shared(template, slug), tags: build.tags };
}

/** `disk`: bytes of a sandbox's own files */
export function listed({ template, newest, buildCount }: ListedTemplate, disk: number, slug: string): object {
  return {
    templateID: template.id,
    buildID: newest?.id ?? "",
    buildStatus: newest ? statuses[newest.state] : "waiting",
    buildCount,
    cpuCount: newest?.vcpus ?? 0,
    memoryMB: newest?.memory ?? 0,
    diskSizeMB: mebibytes(disk),
    ...described(template, slug),
    createdBy: null,
    envdVersion,
  };
}

export function detail(template: Template, builds: TemplateBuild[], disk: number, slug: string): object {
  return {
    templateID: template.id,
    ...described(template, slug),
    builds: builds.map(({ id, state, createdAt, updatedAt, finishedAt, vcpus, memory }) => ({
      buildID: id,
      status: statuses[state],
      createdAt: time(createdAt),
      updatedAt: time(updatedAt),
      ...(finishedAt !== undefined && { finishedAt: time(finishedAt) }),
      cpuCount: vcpus,
      memoryMB: memory,
      diskSizeMB: mebibytes(disk),
      envdVersion,
    })),
  };
}

export function status(build: TemplateBuild, lines: TemplateLogLine[]): object {
  const { reason } = build;
  return {
    templateID: build.templateId,
    buildID: build.id,
    status: statuses[build.state],
    logs: lines.map(({ message }) => message),
    logEntries: lines.map(logLine),
    ...(reason && {
      reason: { message: reason.message, ...(reason.during ? { step: "finalize" } : stepOf(reason.step)) },
    }),
  };
}

export function logLine({ at, level, message, step }: TemplateLogLine): object {
  return { timestamp: time(at), level, message, ...stepOf(step) };
}

export function tag({ tag: name, buildId, createdAt }: TemplateTag): object {
  return { tag: name, buildID: buildId, createdAt: time(createdAt) };
}

function described(template: Template, slug: string): object {
  const { createdAt, updatedAt, lastSpawnedAt, spawns } = template;
  return {
    ...shared(template, slug),
    createdAt: time(createdAt),
    updatedAt: time(updatedAt),
    lastSpawnedAt: lastSpawnedAt === undefined ? null : time(lastSpawnedAt),
    spawnCount: spawns,
  };
}

function shared({ name, isPublic }: Template, slug: string): object {
  return { public: isPublic, aliases: [name], names: [`${slug}/${name}`] };
}

function stepOf(step: number | undefined): { step?: string } {
  return step === undefined ? {} : { step: step === 0 ? "base" : String(step) };
}

function mebibytes(bytes: number): number {
  return Math.floor(bytes / 2 ** 20);
}
