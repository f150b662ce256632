/**
 * The tags of sessions' sandboxes as rows of an index table, in the order in which sessions are listed. There is a row
 * for every value, also within nested ones, by its path: keys, and null for an element of an array. What contains
 * another has all of its rows; the reverse is not sure, because rows do not tell one element of an array from the next.
 *
 *   { user: { id: 7, roles: ["a"] } }    ["user"] {}    ["user","id"] 7    ["user","roles"] []    ["user","roles",null] "a"
 *
 * A deleted sandbox's sessions keep theirs: lists of sessions have them too.
 */

import { SandkeepError } from "../../core/model/errors.ts";
import type { TagValue } from "../../core/model/sandbox.ts";
import type { Database } from "../tables.ts";
import { short, type TagPair } from "./tags.ts";

type Tags = Record<string, TagValue>;

export interface TaggedSession {
  id: string;
  projectId: string;
  createdAt: number;
}

/** how deep values may be nested, and how many there may be in all */
const deepest = 64;
const most = 10_000;

/** an engine takes so many parameters and no more, and conditions of so many parts */
const rowsAtOnce = 1000;
const sessionsAtOnce = 200;

/** refuses tags that are too much for the index */
export function checkTags(tags: Tags): void {
  allTerms(tags);
}

/** the rows that tags must have to contain these: a nested value that is not empty is there when its own values are */
export function wantedTerms(tags: Tags): TagPair[] {
  return [...collectTerms(tags, isEmpty).values()];
}

/** whether everything in `part` is in `whole`: of objects each pair, of arrays each element somewhere, of others the same */
export function contains(whole: TagValue, part: TagValue): boolean {
  if (!isNested(whole) || !isNested(part)) return whole === part;
  if (Array.isArray(part))
    return Array.isArray(whole) && part.every((one) => whole.some((each) => contains(each, one)));
  if (Array.isArray(whole)) return false;
  return Object.entries(part).every(
    ([key, value]) => Object.hasOwn(whole, key) && contains(whole[key] as TagValue, value),
  );
}

/** whether having all terms of this is not enough to contain it: terms do not say which element of an array they are of */
export function needsCheck(part: TagValue): boolean {
  if (!isNested(part)) return false;
  const inArray = Array.isArray(part) && part.some(isNested);
  return inArray || Object.values(part).some(needsCheck);
}

export async function writeSessionTags(db: Database, sessions: TaggedSession[], tags: Tags): Promise<void> {
  await insertTerms(db, sessions, [...allTerms(tags).values()]);
}

/** an index row: project, key, value, creation, session */
export type TagKey = [string, string, string, number, string];

/** the whole keys of a session's rows, as its sandbox's tags are */
export function tagKeysOf({ id, projectId, createdAt }: TaggedSession, tags: Tags): TagKey[] {
  return [...allTerms(tags).values()].map(({ key, value }) => [projectId, key, value, createdAt, id]);
}

/** makes the rows of a sandbox's sessions what its tags are now */
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
  await insertTerms(db, sessions, added);
}

async function insertTerms(db: Database, sessions: TaggedSession[], terms: TagPair[]): Promise<void> {
  const rows = sessions.flatMap(({ id, projectId, createdAt }) =>
    terms.map(({ key, value }) => ({ project_id: projectId, key, value, created_at: createdAt, session_id: id })),
  );
  for (let i = 0; i < rows.length; i += rowsAtOnce)
    await db
      .insertInto("session_tags")
      .values(rows.slice(i, i + rowsAtOnce))
      .execute();
}

async function deleteTerm(db: Database, sessions: TaggedSession[], { key, value }: TagPair): Promise<void> {
  for (let i = 0; i < sessions.length; i += sessionsAtOnce)
    await db
      .deleteFrom("session_tags")
      .where((eb) =>
        eb.or(
          sessions.slice(i, i + sessionsAtOnce).map(({ id, projectId, createdAt }) =>
            // The whole key of the row, so that each is one lookup.
            eb.and({ project_id: projectId, key, value, created_at: createdAt, session_id: id }),
          ),
        ),
      )
      .execute();
}

function allTerms(tags: Tags): Map<string, TagPair> {
  return collectTerms(tags, () => true);
}

/** the terms of tags, by what tells them apart; of nested values only those that are wanted */
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
