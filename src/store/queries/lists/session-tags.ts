/**
 * The tags of sessions' sandboxes as rows of an index table, in the order of the list of sessions. There is a row for
 * every value, also within nested ones, by its path: keys, and null for an element of an array. Tags that contain
 * others have all of their rows. The reverse may be false, because rows do not distinguish elements of an array.
 *
 *   { user: { id: 7, roles: ["a"] } }    ["user"] {}    ["user","id"] 7    ["user","roles"] []    ["user","roles",null] "a"
 *
 * Sessions of a deleted sandbox keep their rows, because lists of sessions include them.
 */

import type { CompiledQuery } from "kysely";
import { SandkeepError } from "../../../core/model/errors.ts";
import type { TagValue } from "../../../core/model/sandbox.ts";
import type { Database } from "../../tables.ts";
import { batches, short, type TagPair } from "./tags.ts";

type Tags = Record<string, TagValue>;

export interface TaggedSession {
  id: string;
  projectId: string;
  createdAt: number;
}

/** most levels of nesting, and most values in total */
const deepest = 64;
const most = 10_000;

/** limits of the engines on parameters of a statement and on parts of a condition */
const rowsAtOnce = 1000;
const sessionsAtOnce = 200;

/** throws if tags are too large for the index */
export function checkTags(tags: Tags): void {
  allTerms(tags);
}

/** the rows that tags need to contain these; a nested value that is not empty follows from its own values */
export function wantedTerms(tags: Tags): TagPair[] {
  return [...collectTerms(tags, isEmpty).values()];
}

/** whether `whole` contains `part`: of objects each pair, of arrays each element somewhere, else the same value */
export function contains(whole: TagValue, part: TagValue): boolean {
  if (!isNested(whole) || !isNested(part)) return whole === part;
  if (Array.isArray(part))
    return Array.isArray(whole) && part.every((one) => whole.some((each) => contains(each, one)));
  if (Array.isArray(whole)) return false;
  return Object.entries(part).every(
    ([key, value]) => Object.hasOwn(whole, key) && contains(whole[key] as TagValue, value),
  );
}

/** whether matching all terms is not enough to contain this: terms do not say which array element they belong to */
export function needsCheck(part: TagValue): boolean {
  if (!isNested(part)) return false;
  const inArray = Array.isArray(part) && part.some(isNested);
  return inArray || Object.values(part).some(needsCheck);
}

/** the statements that insert the rows of a new session */
export function sessionTagInserts(db: Database, session: TaggedSession, tags: Tags): CompiledQuery[] {
  return termInserts(db, [session], [...allTerms(tags).values()]);
}

/** an index row: project, key, value, creation, session */
export type TagKey = [string, string, string, number, string];

/** the full keys of a session's rows, for its sandbox's tags */
export function tagKeysOf({ id, projectId, createdAt }: TaggedSession, tags: Tags): TagKey[] {
  return [...allTerms(tags).values()].map(({ key, value }) => [projectId, key, value, createdAt, id]);
}

/** updates the rows of a sandbox's sessions to its new tags */
export async function changeSessionTags(db: Database, sandboxId: string, before: Tags, now: Tags): Promise<void> {
  const [old, wanted] = [allTerms(before), allTerms(now)];
  const gone = [...old].filter(([term]) => !wanted.has(term)).map(([, pair]) => pair);
  const added = [...wanted].filter(([term]) => !old.has(term)).map(([, pair]) => pair);
  if (gone.length + added.length === 0) return;
  const sessions = await db
    .selectFrom("sessions")
    .select(["id", "project_id as projectId", "created_at as createdAt"])
    .where("sandbox_id", "=", sandboxId)
    .execute();
  for (const pair of gone) await deleteTerm(db, sessions, pair);
  for (const insert of termInserts(db, sessions, added)) await db.executeQuery(insert);
}

function termInserts(db: Database, sessions: TaggedSession[], terms: TagPair[]): CompiledQuery[] {
  const rows = sessions.flatMap(({ id, projectId, createdAt }) =>
    terms.map(({ key, value }) => ({ project_id: projectId, key, value, created_at: createdAt, session_id: id })),
  );
  return batches(rows, rowsAtOnce).map((some) => db.insertInto("session_tags").values(some).compile());
}

async function deleteTerm(db: Database, sessions: TaggedSession[], { key, value }: TagPair): Promise<void> {
  for (let i = 0; i < sessions.length; i += sessionsAtOnce)
    await db
      .deleteFrom("session_tags")
      .where((eb) =>
        eb.or(
          sessions.slice(i, i + sessionsAtOnce).map(({ id, projectId, createdAt }) =>
            // The full key of the row, so that each is one lookup.
            eb.and({ project_id: projectId, key, value, created_at: createdAt, session_id: id }),
          ),
        ),
      )
      .execute();
}

function allTerms(tags: Tags): Map<string, TagPair> {
  return collectTerms(tags, () => true);
}

/** the terms of tags, by a unique text; of nested values only those that are wanted */
function collectTerms(tags: Tags, wanted: (nested: object) => boolean): Map<string, TagPair> {
  const terms = new Map<string, TagPair>();
  const add = (path: (string | null)[], value: string) => {
    const pair = { key: short(JSON.stringify(path)), value: short(value) };
    terms.set(`${pair.key} ${pair.value}`, pair);
    if (terms.size > most)
      throw new SandkeepError("invalid", `Cannot use these tags: they have more than ${most} values`);
  };
  const visit = (path: (string | null)[], value: TagValue) => {
    if (path.length > deepest)
      throw new SandkeepError("invalid", `Cannot use these tags: they are nested deeper than ${deepest}`);
    if (!isNested(value)) return add(path, JSON.stringify(value));
    if (wanted(value)) add(path, Array.isArray(value) ? "[]" : "{}");
    if (Array.isArray(value)) for (const element of value) visit([...path, null], element);
    else for (const [key, member] of Object.entries(value)) visit([...path, key], member);
  };
  for (const [key, value] of Object.entries(tags)) visit([key], value);
  return terms;
}

function isNested(value: TagValue): value is TagValue[] | { [key: string]: TagValue } {
  return typeof value === "object" && value !== null;
}

function isEmpty(nested: object): boolean {
  return Object.keys(nested).length === 0;
}
