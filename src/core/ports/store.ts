/**
 * What the core stores. Every method is one transaction, so nothing is stored half. State changes are compare-and-set:
 * of two callers that want the same change, one makes it and the other sees that it is done.
 */

import type {
  Command,
  Drive,
  Project,
  Quota,
  Sandbox,
  Session,
  SessionState,
  Snapshot,
  TagValue,
  Team,
} from "../model/sandbox.ts";
import type { NetworkPolicy } from "../network/network-policy.ts";
import type { AuditRecords } from "./audit-records.ts";
import type { SecretRecords, TemplateRecords } from "./template-records.ts";
import type { WebhookRecords } from "./webhooks.ts";

export interface Store extends TemplateRecords, SecretRecords, AuditRecords, WebhookRecords {
  open(): Promise<void>;
  close(): Promise<void>;
  /** makes this daemon the only user of its database until it closes or dies; false if another daemon is */
  claim(): Promise<boolean>;

  /** which data directory this database belongs to; undefined before the first start */
  identity(): Promise<string | undefined>;
  setIdentity(id: string): Promise<void>;

  /** does nothing if the team exists */
  insertTeam(team: Team): Promise<void>;
  /** by id or slug; undefined if it was deleted */
  findTeam(idOrSlug: string): Promise<Team | undefined>;
  /** without deleted ones, or only those */
  listTeams(options?: { deleted?: boolean }): Promise<Team[]>;
  /** hides the team, frees its slug and deletes its keys; its projects stay. False if it is gone already */
  deleteTeam(id: string, at: number): Promise<boolean>;
  /** replaces the quota of a team */
  setQuota(teamId: string, quota: Quota): Promise<void>;
  /** throws `exists` if the team has a project of that name */
  insertProject(project: Project): Promise<void>;
  /** by id, UUID or name, of this team only */
  findProject(teamId: string, idOrName: string): Promise<Project | undefined>;
  /** by id or UUID, of any team: to distinguish a foreign project from a missing one */
  findAnyProject(id: string): Promise<Project | undefined>;
  listProjects(teamId: string): Promise<Project[]>;

  insertKey(key: ApiKey): Promise<void>;
  findKey(hash: string): Promise<ApiKey | undefined>;
  listKeys(teamId: string): Promise<ApiKey[]>;
  /** of any team */
  getKey(id: string): Promise<ApiKey | undefined>;
  /** replaces the quota of a key */
  setKeyQuota(id: string, quota: Quota): Promise<void>;
  /** undefined if the team has no such key */
  renameKey(teamId: string, id: string, name: string): Promise<ApiKey | undefined>;
  /** stores the time of its last use */
  touchKey(id: string, at: number): Promise<void>;
  /** false if the team has no such key */
  deleteKey(teamId: string, id: string): Promise<boolean>;

  /** inserts a sandbox with its first session; throws `exists` if the project has a sandbox of that name */
  insertSandbox(sandbox: Sandbox, session: Session): Promise<void>;
  findSandbox(projectId: string, name: string): Promise<Sandbox | undefined>;
  /** deleted ones included */
  getSandbox(id: string): Promise<Sandbox | undefined>;
  /** in any order, deleted ones included; omits missing ones */
  getSandboxes(ids: readonly string[]): Promise<Sandbox[]>;
  /** by a route's label, of any team */
  findSandboxByRoute(subdomain: string): Promise<Sandbox | undefined>;
  /** replaces the given fields; undefined clears a field. Returns the new sandbox, or undefined if it is gone */
  updateSandbox(id: string, changes: SandboxChanges): Promise<Sandbox | undefined>;
  /** frees the name and hides the sandbox from lists; sessions and snapshots stay. False if it is gone already */
  deleteSandbox(id: string, at: number): Promise<boolean>;
  listSandboxes(query: SandboxQuery): Promise<Page<Sandbox>>;
  /** the total number of items on all pages of such a list */
  countSandboxes(query: SandboxFilter): Promise<number>;
  /** sandboxes that cannot run again: over since before then, and without a snapshot */
  staleSandboxes(before: number, limit: number): Promise<Sandbox[]>;

  /**
   * inserts a further session of a sandbox and makes it the current one; false if `after` is no longer the current one,
   * so that of two resumes one wins
   */
  insertSession(session: Session, after: string): Promise<boolean>;
  getSession(id: string): Promise<Session | undefined>;
  /** in any order; omits missing ones */
  getSessions(ids: readonly string[]): Promise<Session[]>;
  findSessionByShortId(shortId: string): Promise<Session | undefined>;
  /**
   * moves a session to a state, with other changes, if it is in one of the `from` states, and updates its sandbox if
   * this is the current session. Returns the new session, or undefined if it was in another state
   */
  moveSession(
    id: string,
    from: readonly SessionState[],
    to: SessionState,
    changes: SessionChanges,
  ): Promise<Session | undefined>;
  /** as moveSession() to a state that is an end; adds the session's use to its sandbox's totals at the same moment */
  endSession(
    id: string,
    from: readonly SessionState[],
    to: SessionState,
    changes: SessionChanges,
  ): Promise<Session | undefined>;
  /** changes a session without changing its state, if it is in one of these states */
  updateSession(id: string, states: readonly SessionState[], changes: SessionChanges): Promise<Session | undefined>;
  /** adds a session's use to its sandbox's totals, once */
  addTotals(sessionId: string): Promise<void>;
  /** sessions that are over but not in the totals: earlier versions counted them after their end */
  uncountedSessions(): Promise<string[]>;
  listSessions(query: SessionQuery): Promise<Page<Session>>;
  /** the same list with fewer fields, for long pages */
  listSessionSummaries(query: SessionQuery): Promise<Page<SessionSummary>>;
  /** the exact number, without reading all rows */
  countSessions(query: CountQuery): Promise<number>;
  /** running sessions whose time is over, soonest first */
  dueSessions(now: number, limit: number): Promise<Session[]>;
  /** moves the start, the last use and the end of running sessions by so many ms, after the clock was set */
  moveSessions(by: number): Promise<void>;
  /** when the next running session expires */
  nextExpiry(): Promise<number | undefined>;
  /** sessions that are not over */
  openSessions(): Promise<Session[]>;
  /** when sessions ran that were created in this time, the newest if there are more than `limit`, and all that are not over */
  sessionRuns(query: { projectId: string; after: number; before: number; limit: number }): Promise<SessionRun[]>;

  /** sessions in a part of a project's list that a rule lets go and that nothing needs; `next` is where to continue */
  prunableSessions(query: PruneQuery): Promise<PrunePage>;
  /** deletes prunable sessions with all their rows, and deleted sandboxes without other sessions; returns how many */
  pruneSessions(ids: readonly string[]): Promise<number>;
  /** the newest session of a project that has this many newer ones */
  sessionBehind(projectId: string, newer: number): Promise<Moment | undefined>;
  /** shrinks the index behind counts after many rows were deleted */
  compactCounts(projectId: string): Promise<void>;

  insertCommand(command: Command): Promise<void>;
  /** for a command that never ran */
  deleteCommand(id: string): Promise<void>;
  getCommand(id: string): Promise<Command | undefined>;
  /** only if it has not ended before; returns the command, or undefined if there is none */
  endCommand(id: string, end: Pick<Command, "exitCode" | "endedAt" | "endCause">): Promise<Command | undefined>;
  /** newest last */
  listCommands(sessionId: string): Promise<Command[]>;
  /** in order of their start */
  pageCommands(sessionId: string, query: CommandQuery): Promise<Page<Command>>;
  openCommands(sessionId: string): Promise<Command[]>;
  /** counts a session's commands without reading them one by one */
  tallyCommands(sessionId: string, parts: Parts): Promise<CommandTally>;

  insertSnapshot(snapshot: Snapshot): Promise<void>;
  getSnapshot(id: string): Promise<Snapshot | undefined>;
  updateSnapshot(id: string, changes: SnapshotChanges): Promise<Snapshot | undefined>;
  listSnapshots(query: SnapshotQuery): Promise<Page<Snapshot>>;
  countSnapshots(query: CountQuery): Promise<number>;
  /** the sum of the sizes of snapshots that are not deleted; with `keyId`, of sandboxes that this key made */
  snapshotBytes(query: { teamId?: string; keyId?: string }): Promise<number>;
  /** snapshots of this sandbox that are not deleted, newest first */
  snapshotsOf(sandboxId: string): Promise<Snapshot[]>;
  /** children in order of creation, deleted ones included */
  snapshotChildren(parentId: string, limit: number): Promise<Snapshot[]>;
  /** expired but not deleted */
  dueSnapshots(now: number, limit: number): Promise<Snapshot[]>;
  /** the runtime's ids of all snapshots that are not deleted */
  liveRuntimeSnapshots(): Promise<string[]>;
  /** whether this runtime id belongs to a deleted snapshot */
  isDeletedSnapshot(runtimeId: string): Promise<boolean>;
  /** snapshots with this runtime id that are not deleted */
  snapshotsOfRuntime(runtimeId: string): Promise<Snapshot[]>;
  /** whether it is the current snapshot of a sandbox that is not deleted */
  isCurrentSnapshot(id: string): Promise<boolean>;

  /** throws `exists` if the project has a drive of that name */
  insertDrive(drive: Drive): Promise<void>;
  findDrive(projectId: string, name: string): Promise<Drive | undefined>;
  getDrive(id: string): Promise<Drive | undefined>;
  /** undefined if it is gone */
  updateDrive(id: string, changes: Pick<Drive, "maxSizeBytes" | "updatedAt">): Promise<Drive | undefined>;
  /** attaches it to a session; false if another session has it */
  attachDrive(id: string, sessionId: string, sandboxName: string, at: number): Promise<boolean>;
  detachDrives(sessionId: string, at: number): Promise<void>;
  /** false if it is attached or gone */
  deleteDrive(id: string): Promise<boolean>;
  listDrives(query: DriveQuery): Promise<Page<Drive>>;

  /**
   * begins a request with an idempotency key: "new" for a key that was not used before, "running" while the first
   * request is under way, else the first answer
   */
  beginIdempotent(key: string, at: number): Promise<"new" | "running" | { status: number; body: string }>;
  endIdempotent(key: string, answer: { status: number; body: string } | undefined): Promise<void>;
  forgetIdempotent(before: number): Promise<void>;
  /** deletes requests under way, when a daemon starts: their daemon is gone */
  abandonIdempotent(): Promise<void>;
}

export interface ApiKey {
  id: string;
  teamId: string;
  name: string;
  /** SHA-256 of the key, in hex */
  hash: string;
  /** its last characters, to distinguish keys */
  hint: string;
  createdAt: number;
  /** the only project that it is for */
  projectId?: string;
  readOnly?: boolean;
  /** the widest policy that its callers may use */
  policyCeiling?: NetworkPolicy;
  expiresAt?: number;
  /** whether it may act for every team */
  admin?: boolean;
  /** accurate to about a minute */
  lastUsedAt?: number;
  /** what the sandboxes that it made may use */
  quota?: Quota;
}

/** fields to replace; undefined clears */
type Changes<T> = { [K in keyof T]?: T[K] | undefined };
export type SandboxChanges = Changes<
  Omit<Sandbox, "teamId" | "projectId" | "id" | "name" | "createdAt" | "madeBy" | "state" | "totals">
>;
export type SessionChanges = Changes<
  Omit<Session, "teamId" | "projectId" | "id" | "state" | "sandboxId" | "createdAt">
>;
export type SnapshotChanges = Changes<Omit<Snapshot, "teamId" | "projectId" | "id" | "createdAt">>;

export interface Page<T> {
  items: T[];
  /** cursor of the next page; undefined on the last */
  next?: string;
}

export interface CommandQuery extends PageQuery {
  /** only those that had not ended at this time */
  from?: number | undefined;
  /** only those that had begun at this time */
  to?: number | undefined;
}

/** Equal parts of a time, one after the other. */
export interface Parts {
  /** where the first one begins, in ms since 1970 */
  from: number;
  /** the length of each, in ms */
  step: number;
  count: number;
}

/** What commands did in each part of a time. */
export interface CommandTally {
  /** commands that ran when the first part began */
  running: number;
  /** parts in which any began or ended, by their index from 0 on */
  parts: { part: number; started: number; ended: number; failed: number }[];
}

export interface PageQuery {
  limit: number;
  /** `next` of an earlier page; throws `invalid` if malformed or from another sort or filter */
  cursor?: string;
  order: "asc" | "desc";
}

export interface SandboxQuery extends PageQuery, SandboxFilter {
  sortBy: "createdAt" | "name" | "stateChangedAt" | "currentSnapshotId";
}

export interface SandboxFilter {
  projectId: string;
  namePrefix?: string;
  /** whether to omit sandboxes whose session is over and kept no files */
  kept?: boolean;
  /** created after this time */
  createdAfter?: number;
  /** their image as people know it (nameOfBase()), of this team or of the host */
  image?: { name: string; teamId: string };
  /**
   * a text that their notes have under this name, at any depth; where they have none under it, one of these is the name
   * of their imported image, or null for the default one
   */
  noted?: { member: string; value: string; otherwise: { imageNames: readonly (string | null)[] } };
  /** beginning of the name of their imported image */
  imageNamePrefix?: string;
  states?: readonly SessionState[];
  /** every pair must match; nested values are compared as a whole */
  tags?: Record<string, TagValue>;
}

/** When a session ran. */
export interface SessionRun {
  startedAt: number;
  /** when it ended or was paused; undefined while it runs */
  endedAt?: number;
}

/** The fields of a session in long lists. */
export interface SessionSummary
  extends Pick<Session, "id" | "state" | "sourceSnapshotId" | "requestedAt" | "startedAt" | "expiresAt"> {
  /** tags of its sandbox, even of a deleted one */
  tags: Sandbox["tags"];
}

export interface SessionQuery extends PageQuery, Span {
  projectId: string;
  sandboxName?: string;
  /** only sessions that are not over */
  open?: boolean;
  /** tags that their sandboxes must contain: every pair, and of a nested value every pair of it */
  contains?: Record<string, TagValue>;
}

/** Which sessions of a project may be deleted. */
export interface PruneQuery {
  projectId: string;
  /** sessions that ended before this time */
  endedBefore?: number | undefined;
  /** also this session and all older ones */
  upTo?: Moment | undefined;
  /** in any case only sessions that ended before this time, in sandboxes that were not deleted since */
  settledBefore: number;
  /** start of the part: only sessions created later */
  after?: number | undefined;
  /** most rows to read */
  limit: number;
}

export interface PrunePage {
  /** in an order that keeps the places of timeline.ts right: of one millisecond the last first */
  sessions: PrunableSession[];
  /** fewest of them to delete in one step: fewer take nearly as long */
  atLeast?: number;
  /** `after` of the next part; undefined at the end */
  next?: number;
}

export interface PrunableSession extends Pick<Session, "id" | "createdAt"> {
  /** runtime ids of its deleted snapshots, which are deleted with it */
  runtimeSnapshots: string[];
}

export interface SnapshotQuery extends PageQuery, Span {
  projectId: string;
  sandboxName?: string;
  /** only those of this sandbox, not of others with the same name */
  sandboxId?: string;
  /** only those with any name (true), or with this one */
  name?: string | true;
  /** whether to omit deleted ones */
  there?: boolean;
}

export interface CountQuery extends Span {
  projectId: string;
}

/** A part of a list by creation: strictly newer than `after`, strictly older than `before`. */
export interface Span {
  after?: Moment;
  before?: Moment;
}

/** A place in a list by creation: with an id, between two items of the same millisecond; without one, outside of it. */
export interface Moment {
  at: number;
  id?: string;
}

export interface DriveQuery extends PageQuery {
  projectId: string;
  sortBy: "createdAt" | "updatedAt" | "name";
  namePrefix?: string;
}
