/** The record of a new session, with its sandbox's current configuration. */

import type { Sandbox, Session, Snapshot } from "../model/sandbox.ts";

export function sessionOf(
  sandbox: Sandbox,
  ids: { id: string; shortId: string },
  at: number,
  snapshot: Snapshot | undefined,
): Session {
  return {
    ...ids,
    teamId: sandbox.teamId,
    projectId: sandbox.projectId,
    sandboxId: sandbox.id,
    sandboxName: sandbox.name,
    state: "pending",
    vcpus: sandbox.vcpus,
    memory: sandbox.memory,
    timeout: sandbox.timeout,
    ...(sandbox.lifetime !== undefined && { lifetime: sandbox.lifetime }),
    region: sandbox.region,
    ...(sandbox.base.runtime !== undefined && { runtime: sandbox.base.runtime }),
    cwd: sandbox.base.cwd,
    user: sandbox.base.user,
    env: sandbox.env,
    persistent: sandbox.persistent,
    networkPolicy: sandbox.networkPolicy,
    ...(snapshot && { sourceSnapshotId: snapshot.id }),
    requestedAt: at,
    createdAt: at,
    updatedAt: at,
  };
}
