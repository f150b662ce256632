/** Schemas of what E2B's clients send to build and change templates. */

import { z } from "zod";
import type { ServiceLimits } from "../../kit/dialect.ts";
import { number } from "../schemas.ts";

export type TemplateSchemas = ReturnType<typeof templateSchemas>;

/** in MiB */
const memory = { least: 128, most: 1 << 20 };
const mostSteps = 1000;

export function templateSchemas(limits: Pick<ServiceLimits, "vcpus" | "disk">) {
  const disk = Math.floor(limits.disk / 2 ** 20);
  const page = {
    limit: number(z.int().min(1).max(100)).default(100),
    nextToken: z.string().min(1).max(4096).optional(),
    teamID: z.string().max(128).optional(),
  };
  return {
    requestBody: z
      .strictObject({
        name: name.optional(),
        alias: name.optional(),
        tags: tags.nullish(),
        cpuCount: z.int().min(1).max(limits.vcpus).nullish(),
        memoryMB: z.int().min(memory.least).max(memory.most).nullish(),
        minFreeDiskMb: z
          .int()
          .min(0)
          .max(disk, { error: `a sandbox has at most ${disk} MiB of disk here` })
          .nullish(),
        teamID: z.string().max(128).nullish(),
      })
      .refine(({ name, alias }) => name !== undefined || alias !== undefined, { error: "`name` is missing." }),
    startBody: z
      .strictObject({
        fromImage: z.string().min(1).max(256).nullish(),
        fromTemplate: z.string().min(1).max(256).nullish(),
        fromImageRegistry: z
          .null({ error: "credentials are not taken here: `sandkeep registry` keeps those of registries." })
          .optional(),
        steps: z.array(step).max(mostSteps).nullish(),
        startCmd: line.nullish(),
        readyCmd: line.nullish(),
        force: z.boolean().nullish(),
      })
      .refine(({ fromImage, fromTemplate }) => !(fromImage && fromTemplate), {
        error: "`fromImage` and `fromTemplate` exclude each other.",
      }),
    listQuery: z.strictObject(page),
    legacyListQuery: z.strictObject({ teamID: page.teamID }),
    detailQuery: z.strictObject({ limit: page.limit, nextToken: page.nextToken }),
    statusQuery: z.strictObject({
      logsOffset: number(z.int().min(0)).default(0),
      limit: number(z.int().min(0).max(100)).default(100),
      level: level.default("debug"),
    }),
    logsQuery: z.strictObject({
      cursor: number(z.int().min(0)).optional(),
      limit: number(z.int().min(0).max(100)).default(100),
      direction: z.enum(["forward", "backward"]).default("forward"),
      level: level.default("debug"),
      // Both are one here: lines are read while the build runs, and stay.
      source: z.enum(["temporary", "persistent"]).optional(),
    }),
    visibilityBody: z.strictObject({ public: z.boolean() }),
    assignBody: z.strictObject({ target: name, tags: tags.min(1) }),
    removeBody: z.strictObject({ name, tags: tags.min(1) }),
  };
}

const name = z.string().min(1).max(384);
const tags = z.array(z.string().min(1).max(128)).max(100);
const level = z.enum(["debug", "info", "warn", "error"]);
const line = z
  .string()
  .max(64 << 10)
  .regex(/^[^\0]*$/);

/** SHA-256 that clients compute of the files of a step */
export const filesHash = z.string().regex(/^[0-9a-f]{64}$/);

const step = z.strictObject({
  type: z.string().min(1).max(32),
  args: z.array(line).max(2000).nullish(),
  force: z.boolean().nullish(),
  filesHash: filesHash.nullish(),
  // Settings of the client itself, which it sends along.
  forceUpload: z.boolean().nullish(),
  resolveSymlinks: z.boolean().nullish(),
  gzip: z.boolean().nullish(),
});

export type Step = z.output<typeof step>;
export type StartBody = z.output<TemplateSchemas["startBody"]>;
