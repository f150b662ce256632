/** The schema of environment variables on every wire: what the kernel can pass to a program. */

import { z } from "zod";

export const environment = z.record(
  z
    .string()
    .min(1)
    .max(1024)
    .regex(/^[^=]+$/, "the name of an environment variable is empty or has `=` in it."),
  z.string().max(128 << 10),
);
