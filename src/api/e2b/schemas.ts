/** What E2B's clients send, field by field. A member that no schema names is refused rather than ignored. */

import { z } from "zod";
import type { ServiceLimits } from "../kit/dialect.ts";
import { environment } from "../kit/environment.ts";

export type Schemas = ReturnType<typeof schemas>;

export function schemas(limits: Pick<ServiceLimits, "timeout">) {
  const timeout = z
    .int()
    .min(1)
    .max(Math.floor(limits.timeout / 1000));
  return {
    emptyQuery: z.strictObject({}),
    createBody: z.strictObject({
      templateID: z.string().min(1).max(256),
      timeout: timeout.optional(),
      metadata: z.record(z.string().min(1).max(256), z.string().max(4096)).optional(),
      envVars: environment.optional(),
      // Every sandbox is: clients that did not ask for it send their token all the same.
      secure: z.boolean().optional(),
      allow_internet_access: z.boolean().optional(),
      autoPause: z.boolean().optional(),
    }),
  };
}
