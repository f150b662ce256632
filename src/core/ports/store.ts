/**
 * What the core needs remembered. Every method is one transaction; nothing is remembered half. State changes are
 * compare-and-set, so of two callers who want the same change one gets it and the other sees that it is done.
 */

import type {
  Command,
  Drive,
  Project,
  Sandbox,
  Session,
  SessionState,
  Snapshot,
  TagValue,
  Team,
} from "../model/sandbox.ts";
import type { NetworkPolicy } from "../network/network-policy.ts";

export interface Store {
  open(): Promise<void>;
  close(): Promise<void>;
  /** makes this daemon the only one of its database until it closes or dies; false when another one is */
  claim(): Promise<boolean>;

  /** which data directory this database belongs to; undefined before the first start */
  identity(): Promise<string | undefined>;
  setIdentity(id: string): Promise<void>;

  /** does nothing when a team of that id is there */
  insertTeam(team: Team): Promise<void>;
  /** by id or slug */
  findTeam(idOrSlug: string): Promise<Team | undefined>;
  listTeams(): Promise<Team[]>;
  /** `exists` when the team has a project of that name */
  insertProject(project: Project): Promise<void>;
  /** by id, UUID or name, of this team only */
  findProject(teamId: string, idOrName: string): Promise<Project | undefined>;
  /** by id or UUID, of any team: to tell a foreign project from none */
  findAnyProject(id: string): Promise<Project | undefined>;
  listProjects(teamId: string): Promise<Project[]>;

  insertKey(key: ApiKey): Promise<void>;
  findKey(hash: string): Promise<ApiKey | undefined>;
  listKeys(teamId: string): Promise<ApiKey[]>;
  /** undefined when the team has no such key */
  renameKey(teamId: string, id: string, name: string): Promise<ApiKey | undefined>;
  /** when it was used last */
  touchKey(id: string, at: number): Promise<void>;
  /** false when the team has no such key */
  deleteKey(teamId: string, id: string): Promise<boolean>;

  /** a sandbox with its first session; `exists` when the project has a sandbox of that name */
  insertSandbox(sandbox: Sandbox, session: Session): Promise<void>;
  findSandbox(projectId: string, name: string): Promise<Sandbox | undefined>;
  /** also a deleted one */
  getSandbox(id: string): Promise<Sandbox | undefined>;
  /** in any order, deleted ones included; what is not there is left out */
  getSandboxes(ids: readonly string[]): Promise<Sandbox[]>;
  /** by a route's label, of any team */
  findSandboxByRoute(subdomain: string): Promise<Sandbox | undefined>;
  /** replaces the given fields; undefined clears; the sandbox as it is then, or undefined when it is gone */
  updateSandbox(id: string, changes: SandboxChanges): Promise<Sandbox | undefined>;
  /** takes the name away and hides it from lists; sessions and snapshots stay; false when it is gone already */
  deleteSandbox(id: string, at: number): Promise<boolean>;
  listSandboxes(query: SandboxQuery): Promise<Page<Sandbox>>;
  /** how many the pages of such a list have together */
  countSandboxes(query: SandboxFilter): Promise<number>;
  /** that cannot run again: over since before then, and without a snapshot */
  staleSandboxes(before: number, limit: number): Promise<Sandbox[]>;

  /**
   * a further session of a sandbox, which becomes its current one; only if `after` is still the current one, so that
   * of two resumes one wins; false otherwise
   */
  insertSession(session: Session, after: string): Promise<boolean>;
  getSession(id: string): Promise<Session | undefined>;
  /** in any order; what is not there is left out */
  getSessions(ids: readonly string[]): Promise<Session[]>;
  findSessionByShortId(shortId: string): Promise<Session | undefined>;
  /**
   * moves a session to a state, with other changes, if it is in one of the `from` states; its sandbox shows the state
   * too if this is its current session; the session as it is then, or undefined when it was in no such state
   */
  moveSession(
    id: string,
    from: readonly SessionState[],
    to: SessionState,
    changes: SessionChanges,
  ): Promise<Session | undefined>;
  /** changes without a change of state; only while it is in one of the states */
  updateSession(id: string, states: readonly SessionState[], changes: SessionChanges): Promise<Session | undefined>;
  /** adds a session's use to its sandbox's totals, once */
  addTotals(sessionId: string): Promise<void>;
  /** sessions that are over and not in the totals: a daemon died in between */
  uncountedSessions(): Promise<string[]>;
  listSessions(query: SessionQuery): Promise<Page<Session>>;
  /** the same list, of less: for long pages */
  listSessionSummaries(query: SessionQuery): Promise<Page<SessionSummary>>;
  /** exactly, without reading them all */
  countSessions(query: CountQuery): Promise<number>;
  /** running sessions whose time is over, soonest first */
  dueSessions(now: number, limit: number): Promise<Session[]>;
  /** moves the start, the last use and the end of running sessions by so many ms: the clock was set */
  moveSessions(by: number): Promise<void>;
  /** when the next running session expires */
  nextExpiry(): Promise<number | undefined>;
  /** sessions that are not over */
  openSessions(): Promise<Session[]>;

  /** those of a part of a project's list that a rule lets go and that nothing needs; `next` is where to go on */
  prunableSessions(query: PruneQuery): Promise<PrunePage>;
  /** deletes prunable sessions with all that is theirs, and deleted sandboxes that had no others; how many went */
  pruneSessions(ids: readonly string[]): Promise<number>;
  /** the place of the newest session of a project that has so many newer ones */
  sessionBehind(projectId: string, newer: number): Promise<Moment | undefined>;
  /** makes the index behind counts as short as what is left after many rows went */
  compactCounts(projectId: string): Promise<void>;

  insertCommand(command: Command): Promise<void>;
  /** one that never ran */
  deleteCommand(id: string): Promise<void>;
  getCommand(id: string): Promise<Command | undefined>;
  /** only if it has not ended before; the command as it is then, undefined when there is none */
  endCommand(id: string, end: Pick<Command, "exitCode" | "endedAt" | "endCause">): Promise<Command | undefined>;
  /** newest last */
  listCommands(sessionId: string): Promise<Command[]>;
  openCommands(sessionId: string): Promise<Command[]>;

  insertSnapshot(snapshot: Snapshot): Promise<void>;
  getSnapshot(id: string): Promise<Snapshot | undefined>;
  updateSnapshot(id: string, changes: SnapshotChanges): Promise<Snapshot | undefined>;
  listSnapshots(query: SnapshotQuery): Promise<Page<Snapshot>>;
  countSnapshots(query: CountQuery): Promise<number>;
  /** not deleted, of this sandbox, newest first */
  snapshotsOf(sandboxId: string): Promise<Snapshot[]>;
  /** children in order of creation, deleted ones included */
  snapshotChildren(parentId: string, limit: number): Promise<Snapshot[]>;
  /** not deleted, past their time */
  dueSnapshots(now: number, limit: number): Promise<Snapshot[]>;
  /** the runtime's ids of all snapshots that are not deleted */
  liveRuntimeSnapshots(): Promise<string[]>;
  /** whether this runtime's id belongs to a snapshot that was deleted */
  isDeletedSnapshot(runtimeId: string): Promise<boolean>;
  /** of this id of the runtime's, unless it is deleted */
  snapshotsOfRuntime(runtimeId: string): Promise<Snapshot[]>;
  /** whether a sandbox that is not deleted has it as its current snapshot */
  isCurrentSnapshot(id: string): Promise<boolean>;

  /** `exists` when the project has a drive of that name */
  insertDrive(drive: Drive): Promise<void>;
  findDrive(projectId: string, name: string): Promise<Drive | undefined>;
  getDrive(id: string): Promise<Drive | undefined>;
  /** undefined when it is gone */
  updateDrive(id: string, changes: Pick<Drive, "maxSizeBytes" | "updatedAt">): Promise<Drive | undefined>;
  /** for a session; false when another session has it */
  attachDrive(id: string, sessionId: string, sandboxName: string, at: number): Promise<boolean>;
  detachDrives(sessionId: string, at: number): Promise<void>;
  /** false when it is attached or gone */
  deleteDrive(id: string): Promise<boolean>;
  listDrives(query: DriveQuery): Promise<Page<Drive>>;

  /**
   * begins a request with a key: "new" when nobody used it before, otherwise the answer that was given, or "running"
   * while the first is under way
   */
  beginIdempotent(key: string, at: number): Promise<"new" | "running" | { status: number; body: string }>;
  endIdempotent(key: string, answer: { status: number; body: string } | undefined): Promise<void>;
  forgetIdempotent(before: number): Promise<void>;
  /** forgets requests that are under way: nobody is left to end them when a daemon starts */
  abandonIdempotent(): Promise<void>;
}

export interface ApiKey {
  id: string;
  teamId: string;
  name: string;
  /** SHA-256 of the key, in hex */
  hash: string;
  /** its last characters, to tell keys apart */
  hint: string;
  createdAt: number;
  /** the one project that it is for */
  projectId?: string;
  readOnly?: boolean;
  /** what no policy of its callers may be wider than */
  policyCeiling?: NetworkPolicy;
  expiresAt?: number;
  /** to about a minute */
  lastUsedAt?: number;
}

/** what is replaced; undefined clears */
type Changes<T> = { [K in keyof T]?: T[K] | undefined };
export type SandboxChanges = Changes<
  Omit<Sandbox, "teamId" | "projectId" | "id" | "name" | "createdAt" | "state" | "totals">
>;
export type SessionChanges = Changes<
  Omit<Session, "teamId" | "projectId" | "id" | "state" | "sandboxId" | "createdAt">
>;
export type SnapshotChanges = Changes<Omit<Snapshot, "teamId" | "projectId" | "id" | "createdAt">>;

export interface Page<T> {
  items: T[];
  /** where the next page begins; undefined on the last */
  next?: string;
}

export interface PageQuery {
  limit: number;
  /** as a page gave it; `invalid` when it is none or was given for another sort or filter */
  cursor?: string;
  order: "asc" | "desc";
}

export interface SandboxQuery extends PageQuery, SandboxFilter {
  sortBy: "createdAt" | "name" | "stateChangedAt" | "currentSnapshotId";
}

export interface SandboxFilter {
  projectId: string;
  namePrefix?: string;
  /** of those whose session is over, only those whose files that session kept */
  kept?: boolean;
  /** made later than that */
  createdAfter?: number;
  /** name of the imported image that they were made from; null for the default one */
  imageName?: string | null;
  states?: readonly SessionState[];
  /** every pair must be there; nested values are compared as a whole */
  tags?: Record<string, TagValue>;
}

/** What long lists show of a session. */
export interface SessionSummary
  extends Pick<Session, "id" | "state" | "sourceSnapshotId" | "requestedAt" | "startedAt" | "expiresAt"> {
  /** its sandbox's, also when that is deleted */
  tags: Sandbox["tags"];
}

export interface SessionQuery extends PageQuery, Span {
  projectId: string;
  sandboxName?: string;
  /** only those that are not over */
  open?: boolean;
  /** contained in the tags of their sandboxes: every pair, and of a nested value every pair of it */
  contains?: Record<string, TagValue>;
}

/** Which sessions of a project may go. */
export interface PruneQuery {
  projectId: string;
  /** those that ended before this time */
  endedBefore?: number | undefined;
  /** and this one with all older ones */
  upTo?: Moment | undefined;
  /** whatever the rule says, only those that ended before this time, in sandboxes that were not deleted since */
  settledBefore: number;
  /** where the part begins: only what was created later */
  after?: number | undefined;
  /** rows to look at */
  limit: number;
}

export interface PrunePage {
  /** in an order in which the places of timeline.ts stay right: of one millisecond the last first */
  sessions: PrunableSession[];
  /** `after` of the next part; undefined at the end */
  next?: number;
}

export interface PrunableSession extends Pick<Session, "id" | "createdAt"> {
  /** the runtime's ids of its deleted snapshots, which go with it */
  runtimeSnapshots: string[];
}

export interface SnapshotQuery extends PageQuery, Span {
  projectId: string;
  sandboxName?: string;
  /** only those of this sandbox, whatever others had its name */
  sandboxId?: string;
  /** only those with a name, or with this one */
  name?: string | true;
  /** whether deleted ones are left out */
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

/** A place in a list by creation: with an id between two things of the same millisecond, without one outside of it. */
export interface Moment {
  at: number;
  id?: string;
}

export interface DriveQuery extends PageQuery {
  projectId: string;
  sortBy: "createdAt" | "updatedAt" | "name";
  namePrefix?: string;
}
