/** Schemas of what Veryfront's clients send. A member that no schema names is refused rather than ignored. */

import { z } from "zod";
import type { ServiceLimits } from "../kit/dialect.ts";
import { environment } from "../kit/environment.ts";
import { hour } from "./session.ts";

export type VeryfrontLimits = Pick<ServiceLimits, "timeout" | "body" | "patience">;

/** most bytes of a body with files in it */
export const filesBody = 64 << 20;
const mostFiles = 1024;

const path = z.string().min(1).max(4096);
const project = z.string().min(1).max(255);

export type Schemas = ReturnType<typeof schemas>;

export function schemas(limits: VeryfrontLimits) {
  const mostHours = Math.min(24, limits.timeout / hour);
  const mostSeconds = limits.timeout / 1000;
  return {
    createBody: z
      .strictObject({
        project_id: project.optional(),
        environment_id: z
          .never({ error: "`environment_id` names nothing here: there are no environments." })
          .optional(),
        ttl_mode: z.enum(["default", "duration", "always_on"]).default("default"),
        ttl_hours: z
          .number()
          .max(mostHours)
          .refine((hours) => hours * hour >= 1000, "`ttl_hours` should be at least a second.")
          .optional(),
      })
      .refine(({ ttl_mode, ttl_hours }) => ttl_mode !== "duration" || ttl_hours !== undefined, {
        error: "`ttl_hours` is required when `ttl_mode` is `duration`.",
      })
      .refine(({ ttl_mode, ttl_hours }) => ttl_mode === "duration" || ttl_hours === undefined, {
        error: "`ttl_hours` is only valid when `ttl_mode` is `duration`.",
      }),
    commandBody: z.strictObject({
      command: z
        .string()
        .min(1)
        .max(1 << 20),
      cwd: path.optional(),
      timeout_seconds: z
        .number()
        .max(mostSeconds)
        .refine((seconds) => seconds >= 0.001, "`timeout_seconds` should be > 0.")
        .optional(),
      env: environment.optional(),
      projectReference: project.optional(),
    }),
    filesBody: z.strictObject({
      files: z.array(z.strictObject({ path, content: z.string() })).max(mostFiles),
    }),
    emptyBody: z.strictObject({}),

    listQuery: z.strictObject({
      project_id: project.optional(),
      cursor: z
        .string()
        .regex(/^-?sbx_[A-Za-z0-9]{1,64}$/, "`cursor` should be one that a page gave, or the id of a session.")
        .optional(),
      limit: z
        .string()
        .regex(/^\d{1,9}$/, "`limit` should be an integer.")
        .transform(Number)
        .pipe(z.number().min(1).max(100))
        .default(20),
    }),
    fileQuery: z.strictObject({ path }),
    emptyQuery: z.strictObject({}),
  };
}
