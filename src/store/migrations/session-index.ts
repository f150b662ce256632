/**
 * The schema's fourth step: what filters sessions by the tags of their sandboxes, and what counts sessions and snapshots
 * without reading them all.
 */

import type { TagValue } from "../../core/model/sandbox.ts";
import type { Engine } from "../engines/engines.ts";
import { writeSessionTags } from "../queries/session-tags.ts";
import type { Database } from "../tables.ts";

export function sessionIndex({ text, allKey }: Pick<Engine, "text" | "allKey">): string[] {
  return [
    `create index sessions_of_sandbox on sessions (sandbox_id)`,

    `create table session_tags (
      project_id ${text} not null,
      key ${text} not null,
      value ${text} not null,
      created_at bigint not null,
      session_id ${text} not null,
      primary key (project_id, key, value, created_at, session_id)
    ) ${allKey}`,

    `create table runs (
      project_id ${text} not null,
      list ${text} not null,
      ends_at bigint not null,
      count bigint not null,
      primary key (project_id, list, ends_at)
    )`,
  ];
}

const batch = 1000;

/** the tags of the sessions that are there, those of deleted sandboxes too */
export async function indexSessions(db: Database): Promise<void> {
  for (let last = ""; ; ) {
    const rows = await db
      .selectFrom("sessions")
      .innerJoin("sandboxes", "sandboxes.id", "sessions.sandbox_id")
      .select(["sessions.id", "sessions.project_id as projectId", "sessions.created_at as createdAt", "sandboxes.tags"])
      .where("sessions.id", ">", last)
      .where("sandboxes.tags", "<>", "{}")
      .orderBy("sessions.id")
      .limit(batch)
      .execute();
    for (const { tags, ...session } of rows)
      await writeSessionTags(db, [session], JSON.parse(tags) as Record<string, TagValue>);
    if (rows.length < batch) return;
    last = rows.at(-1)?.id ?? "";
  }
}
