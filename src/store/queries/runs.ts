/**
 * How many there are of a list by creation, exactly and without reading it: it is cut into runs of about a thousand,
 * whose lengths are on record, so that only what is left of the runs at the ends of a part is counted.
 *
 *   ─────────────┃─────────────┃─────────────┃────────▶ created_at         ┃ ends_at: the run's first moment after it
 *        1,000   │    1,003    │    1,000    │  the rest, up to 1,000, is counted
 *          ├─────┼──── sum ────┼─────────┤
 *         after: counted                 before: counted
 *
 *   A run, once cut, stays, and so do its ends.
 *   Its count is what is in it: a row that is older than the newest run's end adds itself, when it is inserted, to the
 *   run it falls into. Whoever cuts keeps inserting transactions out meanwhile, so each row is either seen or adds itself.
 *
 * Runs are cut when somebody counts, by density and not by the hour: with a million rows in one hour there are a
 * thousand runs in it, and years of a few rows are one. Their ends are remembered, so that counting is one statement.
 */

import { setImmediate as nextTurn } from "node:timers/promises";
import { type RawBuilder, sql } from "kysely";
import { keepLast } from "../../base/bounded-map.ts";
import type { CountQuery } from "../../core/ports/store.ts";
import type { Engine } from "../engines/engines.ts";
import type { Database } from "../tables.ts";
import { beyond, type CreationList } from "./creation-list.ts";

/** rows of a run; more of them when they are of one moment, or came late */
const runLength = 1000;
/** how many runs are cut before others have their turn */
const cutsAtOnce = 20;
/** projects and lists whose runs are remembered */
const mostKnown = 200;

/** before every moment */
const never = Number.MIN_SAFE_INTEGER;
const always = sql<boolean>`1 = 1`;

export interface Runs {
  /** in the transaction that inserts the row, as its last step: others wait for what it locks */
  add(tx: Database, list: CreationList, row: { projectId: string; createdAt: number }): Promise<void>;
  count(list: CreationList, query: CountQuery): Promise<number>;
}

export function runsOf({ db, runLock }: Pick<Engine, "db" | "runLock">): Runs {
  /** the ends that were there when somebody looked, in order: as they stay, they are never wrong */
  const known = new Map<string, number[]>();

  /** true when there may be more to cut */
  const cutSome = (list: CreationList, projectId: string) =>
    db.transaction().execute(async (tx) => {
      if (runLock) await sql.raw(runLock.exclusive).execute(tx);
      for (let cuts = 0; cuts < cutsAtOnce; cuts++) {
        const next = await read(tx, nextCut(list, projectId));
        if (next === undefined) return false;
        const end = endOfRuns(list, projectId);
        await sql`
          insert into runs (project_id, list, ends_at, count)
          select ${projectId}, ${list}, cast(${next + 1} as bigint), count(*) from ${sql.table(list)}
          where project_id = ${projectId} and created_at >= ${end} and created_at <= ${next}`.execute(tx);
      }
      return true;
    });

  /** cuts what can be cut, and remembers */
  const look = async (list: CreationList, projectId: string) => {
    if ((await read(db, nextCut(list, projectId))) !== undefined)
      while (await cutSome(list, projectId)) await nextTurn();
    const { rows } = await sql<{ ends_at: number }>`
      select ends_at from runs where project_id = ${projectId} and list = ${list} order by ends_at`.execute(db);
    const ends = rows.map((row) => row.ends_at);
    known.set(`${list} ${projectId}`, ends);
    keepLast(known, mostKnown);
    return ends;
  };

  return {
    async add(tx, list, { projectId, createdAt }) {
      if (runLock) await sql.raw(runLock.shared).execute(tx);
      const around = endOfRun(list, projectId, "first", sql`ends_at > ${createdAt}`);
      await sql`
        update runs set count = count + 1
        where project_id = ${projectId} and list = ${list} and ends_at = ${around}`.execute(tx);
    },

    async count(list, query) {
      const { projectId, after, before } = query;
      // The time alone says nothing more, but PostgreSQL knows from it how few there are.
      const from = after ? sql<boolean>`created_at >= ${after.at} and ${beyond(">", after)}` : always;
      const to = before ? sql<boolean>`created_at <= ${before.at} and ${beyond("<", before)}` : always;
      const counted = (begin: RawBuilder<boolean>, end: RawBuilder<boolean>) =>
        sql<number>`(select count(*) from ${sql.table(list)} where project_id = ${projectId} and ${begin} and ${end})`;
      // No run ends within a moment.
      if (after && before && before.at - after.at <= 1) return (await read(db, counted(from, to))) ?? 0;

      const ends = known.get(`${list} ${projectId}`) ?? (await look(list, projectId));
      const first = after ? (ends.find((end) => end > after.at) ?? Number.MAX_SAFE_INTEGER) : never;
      const last = (before ? ends.findLast((end) => end <= before.at) : ends.at(-1)) ?? never;
      const summed = sql`(
        select coalesce(sum(count), 0) from runs
        where project_id = ${projectId} and list = ${list} and ends_at > ${first} and ends_at <= ${last}
      )`;
      const upTo = after ? sql`${counted(from, sql`created_at < ${first}`)} + ${summed}` : summed;
      const [some, rest] = first < last ? [upTo, counted(sql`created_at >= ${last}`, to)] : [sql`0`, counted(from, to)];
      // One statement, so that nothing is inserted between its parts.
      const { rows } = await sql<{ summed: number; rest: number }>`
        select cast(${some} as bigint) as summed, cast(${rest} as bigint) as rest`.execute(db);
      const found = rows[0] ?? { summed: 0, rest: 0 };
      const isBehindAll = last === (ends.at(-1) ?? never);
      if (isBehindAll && found.rest > (after ? 2 : 1) * runLength) await look(list, projectId);
      return found.summed + found.rest;
    },
  };
}

/** the one number that a statement is about; undefined where it finds none */
async function read(db: Database, number: RawBuilder<number | null>): Promise<number | undefined> {
  const { rows } = await sql<{ number: number | null }>`select cast(${number} as bigint) as number`.execute(db);
  return rows[0]?.number ?? undefined;
}

/** the end of the first or last run of those that the condition is about; NULL when there is none */
function endOfRun(
  list: CreationList,
  projectId: string,
  which: "first" | "last",
  condition: RawBuilder<boolean>,
): RawBuilder<number | null> {
  const order = sql.raw(which === "first" ? "asc" : "desc");
  // No `min` or `max`: PostgreSQL may read all runs for those.
  return sql`(
    select ends_at from runs where project_id = ${projectId} and list = ${list} and ${condition}
    order by ends_at ${order} limit 1
  )`;
}

/** the first moment behind all runs */
function endOfRuns(list: CreationList, projectId: string): RawBuilder<number> {
  return sql`coalesce(${endOfRun(list, projectId, "last", always)}, ${never})`;
}

/** the moment that the next run would end with: NULL while there is too little for one */
function nextCut(list: CreationList, projectId: string): RawBuilder<number | null> {
  return sql`(
    select created_at from ${sql.table(list)}
    where project_id = ${projectId} and created_at >= ${endOfRuns(list, projectId)}
    order by created_at limit 1 offset ${runLength}
  )`;
}
