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
  quota?: Quota;
  /** its id is its slug since then, so that the slug is free */
  deletedAt?: number;
}

/** How much of the host a team, or the sandboxes of a key, may use; a limit that is not set does not exist. */
export interface Quota {
  /** that run or are paused */
  sandboxes?: number;
  vcpus?: number;
  /** MiB */
  memory?: number;
  /** new sandboxes and forks within a minute, also those that have ended */
  createsPerMinute?: number;
  /** MiB on the disk of sandboxes that run or are paused, and of all snapshots */
  disk?: number;
  /** MiB on the disk of the images that belong to it; of a team only */
  imageDisk?: number;
}

export interface Project {
  id: string;
  /** for APIs whose projects are UUIDs */
  uuid: string;
  teamId: string;
  name: string;
  createdAt: number;
}

/** The caller: a team, proven by one of its keys, and the limits of that key. */
export interface Caller {
  teamId: string;
  /** the key that it used */
  keyId?: string;
  /** aborts when the key is deleted or expires: long work must end then */
  ended?: AbortSignal;
  /** whether the key is an operator's, which may act for every team */
  admin?: boolean;
  scope?: Scope | undefined;
}

/** A caller, and the project of its team that the call is about. */
export interface Owner extends Caller {
  projectId: string;
}

/** The team and project that own a thing. */
interface Owned {
  teamId: string;
  projectId: string;
}

/** Durable and named within its project: a configuration, and the sessions that ran with it. */
export interface Sandbox extends Owned {
  id: string;
  name: string;
  persistent: boolean;
  /** what its first session boots from */
  base: SandboxBase;
  vcpus: number;
  /** MiB */
  memory: number;
  /** longest a session may run */
  timeout: number;
  lifetime?: Lifetime;
  /** "pause": a session whose time is over is paused with its memory, instead of stopped */
  onTimeout?: "pause";
  networkPolicy: NetworkPolicy;
  networkId?: string;
  /** default environment of every command; values are sealed (environments.ts) */
  env: Record<string, string>;
  /** string pairs; other APIs call them metadata and may nest them */
  tags: Record<string, TagValue>;
  routes: Route[];
  ingress?: Ingress;
  /** data that dialects store for themselves, by dialect name */
  notes?: Record<string, TagValue>;
  /** who made it: the key, and the API that was used */
  madeBy?: { keyId?: string; wire?: string };
  /** drives by the path they are mounted on */
  mounts: Record<string, Mount>;
  region: string;
  failoverRegions: string[];
  /** how long its snapshots live after their last use; 0 for ever */
  snapshotExpiration?: number;
  /** name of the snapshots that are taken when its sessions end */
  snapshotName?: string;
  keepLastSnapshots?: KeepLastSnapshots;
  /** what the next session boots from */
  currentSnapshotId?: string;
  /** the last session, running or ended */
  currentSessionId: string;
  /** state of the last session */
  state: SessionState;
  stateChangedAt: number;
  totals: Totals;
  createdAt: number;
  updatedAt: number;
}

/**
 * How a session's time is counted, if it is not simply "until its timeout, which may be extended":
 *   idle       the timeout begins again with each use
 *   unlimited  it runs until a caller stops it
 */
export type Lifetime = "idle" | "unlimited";

export type TagValue = string | number | boolean | null | TagValue[] | { [key: string]: TagValue };

export interface SandboxBase {
  /** name of an image of the runtime */
  image: string;
  /** digest of the image's content, as 64 hexadecimal digits */
  digest?: string;
  /** the runtime that is really in the image, such as "node24" */
  runtime?: string;
  /** the imported image that the caller's name resolved to */
  imageName?: string;
  /** where commands start and relative paths begin */
  cwd: string;
  user: string;
}

/** A port of the sandbox and the label that reaches it from outside, for as long as the sandbox exists. */
export interface Route {
  port: number;
  subdomain: string;
  /** whether the label is reserved but not reachable yet */
  closed?: boolean;
}

/** How clients outside reach its ports, besides its routes. */
export interface Ingress {
  /** whether clients reach every port by its number and the sandbox's label (sandbox-label.ts), without a route */
  anyPort?: boolean;
  /** whether clients must show the sandbox's token to reach a port by its number */
  isPrivate?: boolean;
  /** the host name that requests carry when they arrive at a port; ${PORT} in it is the port */
  host?: string;
  /** whether a request to a port resumes a stopped sandbox that has a snapshot */
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

export type SessionState =
  | "pending"
  | "running"
  | "paused"
  | "snapshotting"
  | "stopping"
  | "stopped"
  | "failed"
  | "aborted";

/** Why a session is over. */
export type EndCause = "asked" | "timeout" | "out-of-memory" | "policy" | "host" | "crash";

/** One run of a sandbox, from boot to stop. Its id is also its machine's. */
export interface Session extends Owned {
  id: string;
  /** lowercase letters and digits only, for host names and APIs that need it */
  shortId: string;
  sandboxId: string;
  sandboxName: string;
  state: SessionState;
  vcpus: number;
  /** MiB */
  memory: number;
  /** counted from its start or its last resume; while it is paused, the time that a resume gives it */
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
  /** when its last pause ended: its timeout counts from then */
  resumedAt?: number;
  /** when it is stopped unless extended; only while it runs */
  expiresAt?: number;
  /** set while it is paused, and afterwards if it ended so */
  pausedAt?: number;
  /** how long its earlier pauses took together */
  pausedMs?: number;
  /** its last use, if its lifetime depends on that */
  lastActivityAt?: number;
  requestedStopAt?: number;
  stoppedAt?: number;
  abortedAt?: number;
  snapshottedAt?: number;
  /** how long it ran, without its pauses; set once it has ended, like the fields below */
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
  /** why it ended, if the exit code does not say */
  endCause?: "out-of-memory" | "timeout" | "session-ended";
}

export interface Snapshot extends Owned {
  id: string;
  /** set if its caller named it */
  name?: string;
  sandboxId: string;
  sandboxName: string;
  sessionId: string;
  /** its id in the runtime */
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
  /** for a fork: the drive that it copies, and the first one of that line */
  parentId?: string;
  rootId?: string;
  /** the session that has it mounted for writing, and its sandbox */
  sessionId?: string;
  sandboxName?: string;
  createdAt: number;
  updatedAt: number;
}
