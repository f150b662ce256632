/** The operator's limits from the settings, as the core and the API take them. */

import type { Config } from "../config/config.ts";
import type { Context } from "../core/context.ts";

/** `region` is the default one */
export function coreLimits(config: Config, region: string): Context["limits"] {
  return {
    defaultTimeout: config.defaultTimeout,
    maxTimeout: config.maxTimeout,
    defaultVcpus: config.defaultVcpus,
    maxSandboxes: config.maxSandboxes,
    disk: config.maxDisk,
    maxDriveSize: config.maxDriveSize,
    defaultRegion: region,
    snapshotExpiration: config.snapshotExpiration,
    outputRetention: config.outputRetention,
    buildCacheRetention: config.buildCacheRetention,
    sandboxRetention: config.sandboxRetention,
    sessionRetention: config.sessionRetention,
    sessionsKept: config.sessionsKept,
    auditRetention: config.auditRetention,
    auditKept: config.auditKept,
    quarantine: config.quarantine,
  };
}

/** What callers of the API may ask for; `regions` has the default one first. */
export function apiLimits(config: Config, regions: readonly [string, ...string[]]) {
  return {
    ports: config.maxPorts,
    timeout: config.maxTimeout,
    vcpus: Math.min(config.maxVcpus, Math.floor(config.maxMemory / 2 ** 31)),
    disk: config.maxDisk,
    driveSize: config.maxDriveSize,
    regions,
    defaultRegion: regions[0],
  };
}
