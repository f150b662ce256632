/** The record of a new sandbox: the caller's settings, and the host's defaults for the rest. */

import type { CoreLimits } from "../context.ts";
import type { Ids } from "../model/ids.ts";
import type { Mount, Owner, Sandbox, SandboxBase, Snapshot } from "../model/sandbox.ts";
import { allowAll } from "../network/network-policy.ts";
import { routesFor } from "../network/routes.ts";
import { sizeOf } from "../sessions/boot.ts";
import type { Draft } from "./sandboxes.ts";

const noTotals = { egressBytes: 0, ingressBytes: 0, cpuMs: 0, durationMs: 0 };

export interface Given {
  base: SandboxBase;
  limits: CoreLimits;
  at: number;
  timeout: number;
  mounts: Record<string, Mount>;
  /** its own id, its first session's, and more */
  ids: Pick<Ids, "name" | "subdomain"> & { id: string; sessionId: string };
  snapshot: Snapshot | undefined;
  /** the API that the caller used */
  wire: string | undefined;
}

export function newSandbox(owner: Owner, spec: Draft, given: Given): Sandbox {
  const { base, limits, at, timeout, mounts, ids, snapshot, wire } = given;
  return {
    teamId: owner.teamId,
    projectId: owner.projectId,
    id: ids.id,
    name: spec.name ?? (spec.namedBySession ? ids.sessionId : ids.name()),
    persistent: spec.persistent ?? true,
    base: {
      ...base,
      ...(spec.cwd !== undefined && { cwd: spec.cwd }),
      ...(spec.user !== undefined && { user: spec.user }),
    },
    ...sizeOf(spec.vcpus ?? limits.defaultVcpus, spec.memory),
    timeout,
    ...(spec.lifetime !== undefined && { lifetime: spec.lifetime }),
    ...(spec.onTimeout !== undefined && { onTimeout: spec.onTimeout }),
    networkPolicy: spec.networkPolicy ?? allowAll,
    ...(spec.networkId !== undefined && { networkId: spec.networkId }),
    env: spec.env ?? {},
    tags: spec.tags ?? {},
    routes: routesFor(ids, spec.ports ?? [], []),
    ...(spec.ingress && { ingress: spec.ingress }),
    ...(spec.notes && { notes: spec.notes }),
    madeBy: {
      ...(owner.keyId !== undefined && { keyId: owner.keyId }),
      ...(wire !== undefined && { wire }),
    },
    mounts,
    region: spec.region ?? limits.defaultRegion,
    failoverRegions: spec.failoverRegions ?? [],
    ...(spec.snapshotExpiration !== undefined && { snapshotExpiration: spec.snapshotExpiration }),
    ...(spec.snapshotName !== undefined && { snapshotName: spec.snapshotName }),
    ...(spec.keepLastSnapshots !== undefined && { keepLastSnapshots: spec.keepLastSnapshots }),
    ...(snapshot && { currentSnapshotId: snapshot.id }),
    currentSessionId: ids.sessionId,
    state: "pending",
    stateChangedAt: at,
    totals: noTotals,
    createdAt: at,
    updatedAt: at,
  };
}
