/** What Vercel's reference says about the shape of its answers on sandboxes, sessions and snapshots. */

import { anyObject, arrayOf, boolean, number, object, oneOf, orNull, type Schema, string } from "./schema.ts";

const sessionStatus = oneOf("failed", "aborted", "pending", "stopping", "snapshotting", "running", "stopped");

const networkPolicy = object(
  { mode: oneOf("allow-all", "deny-all", "custom") },
  {
    allowedDomains: arrayOf(string),
    allowedCIDRs: arrayOf(string),
    deniedCIDRs: arrayOf(string),
    injectionRules: arrayOf(object({ domain: string }, { headerNames: arrayOf(string) })),
  },
);

/** members that a sandbox of the first version has in common with a session of the second */
const machine: { required: Record<string, Schema>; optional: Record<string, Schema> } = {
  required: {
    id: string,
    status: sessionStatus,
    memory: number,
    vcpus: number,
    region: string,
    runtime: string,
    timeout: number,
    cwd: string,
    createdAt: number,
    updatedAt: number,
    requestedAt: number,
  },
  optional: {
    startedAt: number,
    requestedStopAt: number,
    stoppedAt: number,
    abortedAt: number,
    snapshottedAt: number,
    duration: number,
    sourceSnapshotId: string,
    networkPolicy,
    activeCpuDurationMs: number,
    networkTransfer: object({ egress: number, ingress: number }),
  },
};

const session = object({ ...machine.required, sourceSandboxName: string, projectId: string }, machine.optional);

const snapshot = object(
  {
    id: string,
    status: oneOf("failed", "created", "deleted"),
    sourceSessionId: string,
    region: string,
    sizeBytes: number,
    createdAt: number,
    updatedAt: number,
    lastUsedAt: number,
  },
  { expiresAt: number, creationMethod: oneOf("manual", "automatic"), parentId: string },
);

const namedSandbox = object(
  {
    name: string,
    status: oneOf("stopping", "running", "stopped"),
    statusUpdatedAt: number,
    currentSessionId: string,
    persistent: boolean,
    createdAt: number,
    updatedAt: number,
  },
  {
    currentSnapshotId: string,
    region: string,
    vcpus: number,
    memory: number,
    runtime: string,
    timeout: number,
    cwd: string,
    tags: anyObject,
    networkPolicy,
    snapshotExpiration: number,
    keepLastSnapshots: { type: "object", required: ["count", "deleteEvicted"] },
    totalEgressBytes: number,
    totalIngressBytes: number,
    totalActiveCpuDurationMs: number,
    totalDurationMs: number,
  },
);

/** `GET /v1/sandboxes` */
export const sandboxList = object({
  sandboxes: arrayOf(object(machine.required, machine.optional)),
  pagination: object({ total: number, count: number, next: orNull(number), prev: orNull(number) }),
});

/** `GET /v2/sandboxes/sessions` */
export const sessionList = object({
  sessions: arrayOf(session),
  pagination: object({ count: number, next: orNull(string) }),
});

/** `POST /v2/sandboxes/sessions/{sessionId}/stop` of a sandbox that keeps nothing */
export const stoppedSession = object({ session });

/** the same of a sandbox that is persistent, and therefore ends with a snapshot */
export const stoppedWithSnapshot = object({ session, snapshot, sandbox: namedSandbox });
