/** The settings of how long things are kept. Times are in milliseconds. */

import { z } from "zod";
import { day, duration, hour, minute, type Setting, whole } from "./setting-values.ts";

// The compiler finds the type of each setting; written down, it would be all of this again.
export function retentionSettings(about: ReturnType<typeof z.registry<Setting>>) {
  return {
    snapshotExpiration: duration(day, 0)
      .default(30 * day)
      .register(about, {
        env: "SANDKEEP_SNAPSHOT_EXPIRATION",
        value: "duration",
        meaning: "how long a snapshot lives after its last use when its caller does not say; 0 for ever",
        preset: "30d",
      }),
    sandboxRetention: duration(minute, 0)
      .default(14 * day)
      .register(about, {
        env: "SANDKEEP_SANDBOX_RETENTION",
        value: "duration",
        meaning: "how long a stopped sandbox that has no snapshot to resume from is remembered; 0 for ever",
        preset: "14d",
      }),
    sessionRetention: duration(hour, 0)
      .default(90 * day)
      .register(about, {
        env: "SANDKEEP_SESSION_RETENTION",
        value: "duration",
        meaning: "how long a session that has ended is remembered, with its commands; 0 for ever",
        preset: "90d",
      }),
    sessionsKept: whole(0, Number.MAX_SAFE_INTEGER).default(100_000).register(about, {
      env: "SANDKEEP_SESSIONS_KEPT",
      value: "count",
      meaning: "how many sessions of a project are remembered, the newest ones; 0 for all",
    }),
    auditRetention: duration(hour, 0)
      .default(90 * day)
      .register(about, {
        env: "SANDKEEP_AUDIT_RETENTION",
        value: "duration",
        meaning: "how long an entry of the audit is kept; 0 for ever",
        preset: "90d",
      }),
    auditKept: whole(0, Number.MAX_SAFE_INTEGER).default(100_000).register(about, {
      env: "SANDKEEP_AUDIT_KEPT",
      value: "count",
      meaning: "how many entries of the audit are kept for each team, the newest ones; 0 for all",
    }),
    quarantine: duration(minute, 0)
      .default(30 * day)
      .register(about, {
        env: "SANDKEEP_QUARANTINE",
        value: "duration",
        meaning: "how long machines, snapshots and drives that the database does not know are kept; 0 for ever",
        preset: "30d",
      }),
    buildCacheRetention: duration(minute, 0)
      .default(14 * day)
      .register(about, {
        env: "SANDKEEP_BUILD_CACHE_RETENTION",
        value: "duration",
        meaning: "how long the files after each step of an image's build are kept that no build uses; 0 for ever",
        preset: "14d",
      }),
    outputRetention: duration(minute, 0)
      .default(7 * day)
      .register(about, {
        env: "SANDKEEP_OUTPUT_RETENTION",
        value: "duration",
        meaning: "how long the output of commands is kept after their session has ended; 0 for ever",
        preset: "7d",
      }),
    durability: z.enum(["power", "process"], "power or process").default("power").register(about, {
      env: "SANDKEEP_DURABILITY",
      value: "power|process",
      meaning: "what an acknowledged stop or snapshot survives: a loss of power, or only the death of the daemon",
    }),
  };
}
