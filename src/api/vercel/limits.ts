/** The limits in Vercel's documents. A host may change each of them; the messages stay the same. */

import type { ServiceLimits } from "../kit/dialect.ts";
import { vercelConventions } from "./conventions.ts";

export interface VercelLimits extends ServiceLimits {
  tags: number;
  /** characters of a tag's value */
  tagLength: number;
  mounts: number;
  /** how long an unused interactive token is valid, and how long a terminal outlives its connection, both in ms */
  interactive: { tokenLife: number; grace: number };
}

export const defaultLimits: VercelLimits = {
  ports: 15,
  tags: 5,
  tagLength: 256,
  mounts: 4,
  timeout: 24 * 60 * 60 * 1000,
  vcpus: 32,
  disk: 32 * 2 ** 30,
  driveSize: 16 * 2 ** 40,
  body: 4 * 2 ** 20,
  regions: vercelConventions.regions,
  defaultRegion: vercelConventions.regions[0],
  patience: 15_000,
  interactive: { tokenLife: 5 * 60_000, grace: 60_000 },
};
