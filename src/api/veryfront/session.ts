/**
 * Sessions in Veryfront's format, for its REST API and its MCP tools: prints a session, maps its lifetimes to the
 * core's, and lists sessions in pages.
 */

import type { Core } from "../../core/core.ts";
import { isSandkeepError, SandkeepError } from "../../core/model/errors.ts";
import type { Caller, Lifetime, Owner, Project, Session, SessionState } from "../../core/model/sandbox.ts";
import type { Moment } from "../../core/ports/store.ts";
import type { CreateSpec } from "../../core/sandboxes/sandboxes.ts";

/** default working directory of commands, and base of relative paths */
export const workspace = "/workspace";

export const hour = 3_600_000;

export type TtlMode = "default" | "duration" | "always_on";

export interface WireSession {
  id: string;
  short_id: string;
  /** URL of its commands and files */
  endpoint: string;
  status: "provisioning" | "running" | "error" | "deleting";
  ttl_mode: TtlMode;
  /** null unless the lifetime is a whole number of hours */
  ttl_hours: number | null;
  expires_at: string | null;
  created_at: string;
  project_id: string | null;
  last_activity_at: string | null;
}

/** What printing a session needs in addition to the session. */
export interface Place {
  /** URL of this daemon as its clients know it, without a slash at its end */
  publicUrl: string;
  /** the session's project */
  project: Pick<Project, "uuid">;
}

const statuses: Record<SessionState, WireSession["status"]> = {
  pending: "provisioning",
  running: "running",
  // This vendor has no word for it. Commands are refused with the reason.
  paused: "running",
  snapshotting: "deleting",
  stopping: "deleting",
  stopped: "deleting",
  failed: "error",
  aborted: "error",
};

const ttlModes: Record<Lifetime, TtlMode> = { idle: "default", unlimited: "always_on" };

export function printSession(it: Session, { publicUrl, project }: Place): WireSession {
  const ttlMode = it.lifetime === undefined ? "duration" : ttlModes[it.lifetime];
  const hours = it.timeout / hour;
  return {
    id: it.id,
    short_id: it.shortId,
    endpoint: `${publicUrl}/veryfront/${it.id}`,
    status: statuses[it.state],
    ttl_mode: ttlMode,
    ttl_hours: ttlMode === "duration" && Number.isInteger(hours) ? hours : null,
    expires_at: timeOf(it.expiresAt),
    created_at: new Date(it.createdAt).toISOString(),
    project_id: project.uuid,
    last_activity_at: timeOf(it.lastActivityAt),
  };
}

export function timeOf(at: number | undefined): string | null {
  return at === undefined ? null : new Date(at).toISOString();
}

/** the core's settings for a new session; it is not persistent, so nothing is kept when it ends */
export function sessionSpec({ mode, hours }: { mode: TtlMode; hours?: number | undefined }): CreateSpec {
  const lifetime: Partial<CreateSpec> = {
    default: { lifetime: "idle" as const },
    duration: hours === undefined ? {} : { timeout: Math.max(1000, Math.round(hours * hour)) },
    always_on: { lifetime: "unlimited" as const },
  }[mode];
  return { base: {}, cwd: workspace, persistent: false, namedBySession: true, ...lifetime };
}

/** a session by its id; refuses an ended one, because this vendor deletes a session when it ends */
export async function findSession({ sessions }: Pick<Core, "sessions">, caller: Caller, id: string): Promise<Session> {
  const session = await sessions.get(caller, id);
  if (session.state === "stopped") {
    throw new SandkeepError("gone", `Session "${id}" has ended`, { about: { kind: "session" } });
  }
  return session;
}

export interface PageInfo {
  self: string | null;
  first: null;
  next: string | null;
  prev: string | null;
}

/**
 * A page of the sessions that have not ended, newest first. A cursor is the id of a session, after which the page
 * begins. With a dash in front, the page ends before that session; clients go back this way.
 */
export async function listSessions(
  core: Pick<Core, "sessions">,
  owner: Owner,
  { cursor, limit }: { cursor?: string | undefined; limit: number },
): Promise<{ items: Session[]; pageInfo: PageInfo }> {
  const back = cursor?.startsWith("-") ?? false;
  const at = cursor === undefined ? undefined : await momentOf(core, owner, cursor.replace(/^-/, ""));
  const page = await core.sessions.list(owner, {
    limit,
    open: true,
    order: back ? "asc" : "desc",
    ...(at && (back ? { after: at } : { before: at })),
  });
  const items = back ? page.items.toReversed() : page.items;
  const [first, last] = [items.at(0)?.id, items.at(-1)?.id];
  const hasNewer = back ? page.next !== undefined : cursor !== undefined;
  const hasOlder = back || page.next !== undefined;
  return {
    items,
    pageInfo: {
      self: cursor ?? null,
      first: null,
      next: hasOlder && last !== undefined ? last : null,
      prev: hasNewer && first !== undefined ? `-${first}` : null,
    },
  };
}

/** the position of a session in its project's list; it may have ended since */
async function momentOf({ sessions }: Pick<Core, "sessions">, owner: Owner, id: string): Promise<Moment> {
  const session = await sessions.get(owner, id).catch((error) => {
    if (!isSandkeepError(error, "not-found")) throw error;
  });
  if (session?.projectId === owner.projectId) return { at: session.createdAt, id };
  throw new SandkeepError("invalid", "Invalid request: `cursor` is not the id of a session of this project.");
}
