/**
 * Prints the core's objects as Vercel's JSON. A field without a value is left out, never null: the clients' validators
 * refuse null except for `exitCode` and `pagination.next`.
 */

import type {
  Command,
  Drive,
  Route,
  Sandbox,
  Session,
  SessionState,
  Snapshot,
  TagValue,
} from "../../core/model/sandbox.ts";
import { systemRoute as systemRouteOf } from "../../core/network/routes.ts";
import type { Page } from "../../core/ports/store.ts";
import type { TreeNode } from "../../core/snapshots/snapshots.ts";
import { portPathUrl, portUrl } from "../kit/port-url.ts";
import { pinnedName } from "./image-names.ts";
import { policyToWire } from "./network-policy.ts";

/** sandboxes have only three statuses; a paused one runs again when a client resumes it, like a stopped one */
const sandboxStatus: Record<SessionState, SandboxStatus> = {
  pending: "running",
  running: "running",
  paused: "stopped",
  snapshotting: "stopping",
  stopping: "stopping",
  stopped: "stopped",
  failed: "stopped",
  aborted: "stopped",
};

export type SandboxStatus = "running" | "stopping" | "stopped";

/** the states that a filter by status means */
export function statesOf(status: SandboxStatus): SessionState[] {
  return (Object.keys(sandboxStatus) as SessionState[]).filter((state) => sandboxStatus[state] === status);
}

/** sessions have all our states but one, which this vendor does not know */
export function sessionStatus(state: SessionState): Exclude<SessionState, "paused"> {
  return state === "paused" ? "stopped" : state;
}

/** this host's architecture, which every sandbox has */
const architecture = process.arch === "arm64" ? "arm64" : "amd64";

/** every client before version 3 requires a runtime */
const defaultRuntime = "node24";

/** prints a sandbox, with `expiresAt` if its current session is given */
export function sandbox(it: Sandbox, session?: Session): object {
  return {
    name: it.name,
    persistent: it.persistent,
    createdAt: it.createdAt,
    updatedAt: it.updatedAt,
    currentSessionId: it.currentSessionId,
    status: sandboxStatus[it.state],
    statusUpdatedAt: it.stateChangedAt,
    region: it.region,
    failoverRegions: it.failoverRegions,
    networkId: it.networkId,
    vcpus: it.vcpus,
    memory: it.memory,
    runtime: it.base.runtime ?? defaultRuntime,
    architecture,
    image: pinnedName(it.base.imageName, it.base.digest),
    timeout: it.timeout,
    expiresAt: session?.id === it.currentSessionId ? session.expiresAt : undefined,
    networkPolicy: policyToWire(it.networkPolicy),
    totalEgressBytes: it.totals.egressBytes,
    totalIngressBytes: it.totals.ingressBytes,
    totalActiveCpuDurationMs: it.totals.cpuMs,
    totalDurationMs: it.totals.durationMs,
    currentSnapshotId: it.currentSnapshotId,
    cwd: it.base.cwd,
    tags: unlessEmpty(mapped(it.tags, tagText)),
    mounts: unlessEmpty(mapped(it.mounts, ({ drive: name, mode }) => ({ drive: name, mode }))),
    snapshotExpiration: it.snapshotExpiration,
    keepLastSnapshots: it.keepLastSnapshots,
  };
}

/** prints a session, which version 1 calls a sandbox */
export function session(it: Session): object {
  const used = it.cpuMs !== undefined && it.state === "stopped";
  return {
    id: it.id,
    memory: it.memory,
    vcpus: it.vcpus,
    timeout: it.timeout,
    region: it.region,
    cwd: it.cwd,
    status: sessionStatus(it.state),
    requestedAt: it.requestedAt,
    createdAt: it.createdAt,
    updatedAt: it.updatedAt,
    runtime: it.runtime ?? defaultRuntime,
    architecture,
    // The port of the vendor's own shell server. The vendor's command line refuses a session without it.
    interactivePort: systemRouteOf(it).port,
    projectId: it.projectId,
    sourceSandboxName: it.sandboxName,
    networkPolicy: policyToWire(it.networkPolicy),
    startedAt: it.startedAt,
    requestedStopAt: it.requestedStopAt,
    stoppedAt: it.stoppedAt ?? it.pausedAt,
    abortedAt: it.abortedAt,
    snapshottedAt: it.snapshottedAt,
    duration: it.duration,
    sourceSnapshotId: it.sourceSnapshotId,
    ...(used && {
      activeCpuDurationMs: it.cpuMs,
      networkTransfer: { ingress: it.ingressBytes ?? 0, egress: it.egressBytes ?? 0 },
    }),
  };
}

/** prints a session as it was while its snapshot was taken; the answer with the snapshot shows it like this */
export function snapshotting(it: Session): object {
  const { stoppedAt: _, duration: __, cpuMs: ___, ...running } = it;
  return session({ ...running, state: "snapshotting" });
}

/** exit code of a command that lost its sandbox, as if killed: clients wait for a number */
const killed = 128 + 9;

export function command(it: Command): { sessionId: string; [member: string]: unknown } {
  return {
    id: it.id,
    name: it.name,
    args: it.args,
    cwd: it.cwd,
    sessionId: it.sessionId,
    exitCode: it.exitCode ?? (it.endedAt === undefined ? null : killed),
    startedAt: it.startedAt,
    durationMs: it.endedAt === undefined ? undefined : Math.max(0, it.endedAt - it.startedAt),
  };
}

export function snapshot(it: Snapshot): object {
  return {
    id: it.id,
    sourceSessionId: it.sessionId,
    sourceSandboxId: it.sessionId,
    architecture,
    region: it.region,
    regions: [it.region],
    status: it.state,
    sizeBytes: it.sizeBytes,
    createdAt: it.createdAt,
    updatedAt: it.updatedAt,
    lastUsedAt: it.lastUsedAt,
    creationMethod: it.method,
    expiresAt: it.expiresAt,
    parentId: it.parentId,
  };
}

export function treeNode({ snapshot: it, siblings, count, more }: TreeNode): object {
  return { snapshot: snapshot(it), siblings: siblings.map(snapshot), count: `${count}${more ? "+" : ""}` };
}

export function drive(it: Drive): object {
  return {
    id: it.id,
    parentDriveId: it.parentId,
    rootDriveId: it.rootId,
    name: it.name,
    projectId: it.projectId,
    region: it.region,
    maxSizeBytes: it.maxSizeBytes,
    createdAt: it.createdAt,
    updatedAt: it.updatedAt,
    currentSessionId: it.sessionId,
    currentSandboxName: it.sandboxName,
  };
}

/** The base URLs for a caller's links to ports. */
export interface Addresses {
  /** the URL below whose host labels name sandboxes' ports (port-url.ts) */
  domain: string;
  /** the daemon's own address */
  daemon: string;
  /** whether `url` is a path on the daemon, because the caller cannot resolve names below the domain */
  isByPath: boolean;
}

export function route({ port, subdomain }: Route, { domain, daemon, isByPath }: Addresses): object {
  const pathUrl = portPathUrl(daemon, subdomain);
  return { url: isByPath ? pathUrl : portUrl(domain, subdomain), subdomain, port, pathUrl };
}

/** the route on which old command lines look for their shell server; listed only on request */
export function systemRoute(session: Session, addresses: Addresses): object {
  return { ...route(systemRouteOf(session), addresses), system: true };
}

export function pagination({ items, next }: Page<unknown>): object {
  return { count: items.length, next: next ?? null };
}

function unlessEmpty(value: object): object | undefined {
  return Object.keys(value).length === 0 ? undefined : value;
}

function mapped<T, U>(record: Record<string, T>, change: (value: T) => U): Record<string, U> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, change(value)]));
}

/** tags of other wires may be nested; this wire has only text */
function tagText(value: TagValue): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
