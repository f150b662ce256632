/** Schemas of values that many resources have. */

import { z } from "zod";
import type { EndCause, SessionState, TagValue } from "../../../core/model/sandbox.ts";

export const time = z.int().meta({ description: "Milliseconds since 1970" });
export const duration = z.int().min(0).meta({ description: "Milliseconds" });
/** the last moment that a date can have, and the longest time that something is kept after its use: 100 years */
const lastMoment = 8_640_000_000_000_000;
const century = 36_525 * 86_400_000;
export const laterTime = z.int().min(0).max(lastMoment).meta({ description: "Milliseconds since 1970" });
export const expiration = z
  .int()
  .min(0)
  .max(century)
  .meta({ description: "Milliseconds after its last use; 0 for ever" });

export const bytes = z.int().min(0).meta({ description: "Bytes" });
export const memory = z.number().meta({ description: "MiB" });

const states = {
  pending: true,
  running: true,
  paused: true,
  snapshotting: true,
  stopping: true,
  stopped: true,
  failed: true,
  aborted: true,
} satisfies Record<SessionState, true>;
// The keys of a record by state.
export const sessionState = z.enum(Object.keys(states) as [SessionState, ...SessionState[]]).meta({
  id: "SessionState",
});

const causes = {
  asked: true,
  timeout: true,
  "out-of-memory": true,
  policy: true,
  host: true,
  crash: true,
} satisfies Record<EndCause, true>;
export const endCause = z.enum(Object.keys(causes) as [EndCause, ...EndCause[]]);

/** any JSON */
export const tagValue = z.custom<TagValue>();
