/**
 * The nouns: what a sandbox, its sessions, commands, snapshots and drives are. Times are milliseconds since 1970,
 * durations milliseconds, sizes bytes unless a field says otherwise.
 */

import type { NetworkPolicy } from "../network/network-policy.ts";
import type { Scope } from "./scope.ts";

export interface Team {
  id: string;
  slug: string;
  createdAt: number;
}

export interface Project {
  id: string;
  /** for wires whose projects are UUIDs */
  uuid: string;
  teamId: string;
  name: string;
  createdAt: number;
}

/** Who asks: a team, proven by one of its keys, and what this key may do less than the team. */
export interface Caller {
  teamId: string;
  /** which of its keys */
  keyId?: string;
  /** aborts when the key is deleted or expires: what goes on for long has to end then */
  ended?: AbortSignal;
  scope?: Scope | undefined;
}

/** Who asks, about a project of its team. */
export interface Owner extends Caller {
  projectId: string;
}

/** Whose a thing is. */
interface Owned {
  teamId: string;
  projectId: string;
}

/** Durable and named within its project: configuration, and the sessions that ran with it. */
export interface Sandbox extends Owned {
  id: string;
  name: string;
  persistent: boolean;
  /** what its first session booted from */
  base: SandboxBase;
  vcpus: number;
  /** MiB */
  memory: number;
  /** longest a session may run */
  timeout: number;
  lifetime?: Lifetime;
  networkPolicy: NetworkPolicy;
  networkId?: string;
  /** default environment of every command; values are sealed (environments.ts) */
  env: Record<string, string>;
  /** string pairs; other wires call them metadata and may nest */
  tags: Record<string, TagValue>;
  routes: Route[];
  ingress?: Ingress;
  /** what dialects keep with it for themselves, by their names; it means nothing to others */
  notes?: Record<string, TagValue>;
  /** drives by the path they are mounted on */
  mounts: Record<string, Mount>;
  region: string;
  failoverRegions: string[];
  /** how long its snapshots live after their last use; 0 for ever */
  snapshotExpiration?: number;
  /** what the snapshots that its ends leave are called */
  snapshotName?: string;
  keepLastSnapshots?: KeepLastSnapshots;
  /** what the next session boots from */
  currentSnapshotId?: string;
  /** the last session, also when it has ended */
  currentSessionId: string;
  /** of the last session */
  state: SessionState;
  stateChangedAt: number;
  totals: Totals;
  createdAt: number;
  updatedAt: number;
}

/**
 * How a session's time is counted where it is not simply "until its timeout, which may be extended":
 *   idle       the timeout begins anew whenever it is used
 *   unlimited  it runs until somebody stops it
 */
export type Lifetime = "idle" | "unlimited";

export type TagValue = string | number | boolean | null | TagValue[] | { [key: string]: TagValue };

export interface SandboxBase {
  /** name of an image of the runtime */
  image: string;
  /** of the image's content, as 64 hexadecimal digits */
  digest?: string;
  /** the runtime that is really in there: "node24" */
  runtime?: string;
  /** the imported image that the caller's name led to */
  imageName?: string;
  /** where commands start and relative paths begin */
  cwd: string;
  user: string;
}

/** A port of the sandbox and the label under which it is reached from outside, for as long as the sandbox exists. */
export interface Route {
  port: number;
  subdomain: string;
  /** it has its label and leads nowhere until it is opened */
  closed?: boolean;
}

/** How its ports are reached from outside, besides its routes. */
export interface Ingress {
  /** every port is reached by its number and the sandbox's label (sandbox-label.ts), and needs no route */
  anyPort?: boolean;
  /** who reaches a port by its number has to show the sandbox's token */
  isPrivate?: boolean;
  /** the host that requests to its ports name when they arrive; ${PORT} in it is the port */
  host?: string;
  /** who reaches a port of one that has stopped with its files kept makes it run again */
  wakes?: boolean;
}

export interface Mount {
  driveId: string;
  drive: string;
  mode: "read-write" | "snapshot";
}

export interface KeepLastSnapshots {
  count: number;
  /** how long the kept ones live */
  expiration?: number;
  /** whether older ones are deleted at once, or just left to expire */
  deleteEvicted: boolean;
}

/** over all sessions that have ended */
export interface Totals {
  egressBytes: number;
  ingressBytes: number;
  cpuMs: number;
  durationMs: number;
}

export type SessionState = "pending" | "running" | "snapshotting" | "stopping" | "stopped" | "failed" | "aborted";

/** Why a session is over. */
export type EndCause = "asked" | "timeout" | "out-of-memory" | "policy" | "host" | "crash";

/** One run of a sandbox, from boot to stop. Its id is also its machine's. */
export interface Session extends Owned {
  id: string;
  /** lowercase letters and digits only, for host names and wires that need it */
  shortId: string;
  sandboxId: string;
  sandboxName: string;
  state: SessionState;
  vcpus: number;
  /** MiB */
  memory: number;
  timeout: number;
  lifetime?: Lifetime;
  region: string;
  runtime?: string;
  cwd: string;
  user: string;
  env: Record<string, string>;
  persistent: boolean;
  networkPolicy: NetworkPolicy;
  sourceSnapshotId?: string;
  requestedAt: number;
  createdAt: number;
  updatedAt: number;
  startedAt?: number;
  /** when it is stopped unless somebody extends it; only while it runs */
  expiresAt?: number;
  /** when somebody last used it, as far as its lifetime depends on that */
  lastActivityAt?: number;
  requestedStopAt?: number;
  stoppedAt?: number;
  abortedAt?: number;
  snapshottedAt?: number;
  /** once it has ended */
  duration?: number;
  cpuMs?: number;
  ingressBytes?: number;
  egressBytes?: number;
  endCause?: EndCause;
  endReason?: string;
}

/** A process that a caller started; its output is in the runtime's journal. */
export interface Command extends Pick<Owned, "teamId"> {
  id: string;
  sessionId: string;
  /** the executable */
  name: string;
  args: string[];
  cwd: string;
  startedAt: number;
  exitCode?: number;
  endedAt?: number;
  /** why it ended, where the code does not say it all */
  endCause?: "out-of-memory" | "timeout" | "session-ended";
}

export interface Snapshot extends Owned {
  id: string;
  /** where its caller gave it one */
  name?: string;
  sandboxId: string;
  sandboxName: string;
  sessionId: string;
  /** the runtime's id of it */
  runtimeId: string;
  parentId?: string;
  base: SandboxBase;
  region: string;
  state: "created" | "deleted" | "failed";
  method: "manual" | "automatic";
  sizeBytes: number;
  createdAt: number;
  updatedAt: number;
  lastUsedAt: number;
  /** how long it lives after its last use; 0 for ever */
  expiration: number;
  expiresAt?: number;
}

/** A durable volume, mounted into at most one session for writing. */
export interface Drive extends Owned {
  id: string;
  name: string;
  region: string;
  maxSizeBytes: number;
  /** of a fork: the drive that it is a copy of, and the first one of that line */
  parentId?: string;
  rootId?: string;
  /** the session that has it mounted for writing, and its sandbox */
  sessionId?: string;
  sandboxName?: string;
  createdAt: number;
  updatedAt: number;
}
