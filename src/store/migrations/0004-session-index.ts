/**
 * Adds the index that filters sessions by the tags of their sandboxes, and the table that counts sessions and snapshots
 * without reading them all.
 */

import { createHash } from "node:crypto";
import type { Kysely } from "kysely";
import { execute, type MigrationContext } from "./migration.ts";

export async function up(db: Kysely<Tables>, { text, allKey }: MigrationContext): Promise<void> {
  await execute(db, [
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
  ]);
  await indexSessions(db);
}

const batch = 1000;

interface Tables {
  sessions: { id: string; project_id: string; sandbox_id: string; created_at: number };
  sandboxes: { id: string; tags: string };
  session_tags: { project_id: string; key: string; value: string; created_at: number; session_id: string };
}

/** indexes the tags of existing sessions, also those of deleted sandboxes */
export async function indexSessions(db: Kysely<Tables>): Promise<void> {
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
    for (const { tags, id, projectId, createdAt } of rows) {
      const place = { project_id: projectId, created_at: createdAt, session_id: id };
      const terms = [...termsOf(JSON.parse(tags)).values()].map((term) => ({ ...place, ...term }));
      for (let i = 0; i < terms.length; i += batch)
        await db
          .insertInto("session_tags")
          .values(terms.slice(i, i + batch))
          .execute();
    }
    if (rows.length < batch) return;
    last = rows.at(-1)?.id ?? "";
  }
}

/** a row for every value, also within nested ones, by its path: keys, and null for an element of an array */
function termsOf(tags: object): Map<string, { key: string; value: string }> {
  const terms = new Map<string, { key: string; value: string }>();
  const add = (path: (string | null)[], value: string) => {
    const term = { key: short(JSON.stringify(path)), value: short(value) };
    terms.set(`${term.key} ${term.value}`, term);
  };
  const visit = (path: (string | null)[], value: unknown): void => {
    const isNested = typeof value === "object" && value !== null;
    add(path, isNested ? (Array.isArray(value) ? "[]" : "{}") : JSON.stringify(value));
    if (!isNested) return;
    if (Array.isArray(value)) for (const element of value) visit([...path, null], element);
    else for (const [key, member] of Object.entries(value)) visit([...path, key], member);
  };
  for (const [key, value] of Object.entries(tags)) visit([key], value);
  return terms;
}

/** the text, or its hash if it does not fit into an index entry */
function short(text: string): string {
  return Buffer.byteLength(text) <= 256 ? text : `#${createHash("sha256").update(text).digest("hex")}`;
}
