/**
 * Counts the rows of a list by creation, exactly and without reading them all. The list is cut into runs of about a
 * thousand rows with stored counts, so that only the rows in partial runs at both ends are counted.
 *
 *   ─────────────┃─────────────┃─────────────┃────────▶ created_at         ┃ ends_at: the run's first moment after it
 *        1,000   │    1,003    │    1,000    │  the rest, up to 1,000, is counted
 *          ├─────┼──── sum ────┼─────────┤
 *         after: counted                 before: counted
 *
 *   A run's count is the number of its rows. A row older than the newest run's end changes the count of its run when
 *   it is inserted or deleted, in the same transaction.
 *   Runs that have become short are joined with the next: the later end stays, and its count is the sum.
 *   Cutting and joining lock out those transactions, so each row is either counted or changes the count itself.
 *
 * A call to count cuts the runs, by density and not by time: a million rows in one hour make a thousand runs, and years
 * of a few rows make one. Their ends are cached, so that counting is one statement. It also checks that the two ends
 * that it uses still exist; after a join it runs again with new ends.
 */

import { setImmediate as nextTurn } from "node:timers/promises";
import { type CompiledQuery, type RawBuilder, sql } from "kysely";
import { keepLast } from "../../../base/bounded-map.ts";
import type { CountQuery, Moment } from "../../../core/ports/store.ts";
import type { Engine } from "../../engines/engines.ts";
import { statement } from "../../engines/statements.ts";
import type { Database } from "../../tables.ts";
import { beyond, type CreationList } from "./creation-list.ts";

/** rows of a run; more if they share a moment, or were inserted late */
const usualLength = 1000;
/** how many runs are cut, and how many are joined, before other work gets its turn */
const cutsAtOnce = 20;
const joinsAtOnce = 100;
/** most projects and lists whose runs are cached */
const mostKnown = 200;

/** before every moment */
const never = Number.MIN_SAFE_INTEGER;
/** after every moment */
const forever = Number.MAX_SAFE_INTEGER;
const always = sql<boolean>`1 = 1`;

export interface Runs {
  /** statements for the transaction that inserts the row, as its last ones: others wait for its locks */
  add(list: CreationList, row: { projectId: string; createdAt: number }): CompiledQuery[];
  /** call in the transaction that deletes the rows, as its last step */
  remove(tx: Database, list: CreationList, rows: { projectId: string; createdAt: number }[]): Promise<void>;
  count(list: CreationList, query: CountQuery): Promise<number>;
  /** the place of the newest row that has this many newer ones; undefined if there are fewer rows */
  behindNewest(list: CreationList, projectId: string, newer: number): Promise<Required<Moment> | undefined>;
  /** joins short runs, a few at a time */
  join(list: CreationList, projectId: string): Promise<void>;
}

interface Added {
  list: CreationList;
  projectId: string;
  createdAt: number;
}

interface Run {
  ends_at: number;
  count: number;
}

export function runsOf(
  { db, runLock, rows: given }: Pick<Engine, "db" | "runLock" | "rows">,
  runLength = usualLength,
): Runs {
  /** the ends at the last read, in order */
  const known = new Map<string, number[]>();

  /** true if there may be more to cut */
  const cutSome = (list: CreationList, projectId: string) =>
    db.transaction().execute(async (tx) => {
      if (runLock) await sql.raw(runLock.exclusive).execute(tx);
      for (let cuts = 0; cuts < cutsAtOnce; cuts++) {
        const next = await read(tx, nextCut(list, projectId, runLength));
        if (next === undefined) return false;
        const end = endOfRuns(list, projectId);
        await sql`
          insert into runs (project_id, list, ends_at, count)
          select ${projectId}, ${list}, cast(${next + 1} as bigint), count(*) from ${sql.table(list)}
          where project_id = ${projectId} and created_at >= ${end} and created_at <= ${next}`.execute(tx);
      }
      return true;
    });

  /** cuts new runs, and caches the ends */
  const look = async (list: CreationList, projectId: string): Promise<Run[]> => {
    if ((await read(db, nextCut(list, projectId, runLength))) !== undefined)
      while (await cutSome(list, projectId)) await nextTurn();
    const { rows } = await sql<Run>`
      select ends_at, count from runs where project_id = ${projectId} and list = ${list} order by ends_at`.execute(db);
    known.set(
      `${list} ${projectId}`,
      rows.map((row) => row.ends_at),
    );
    keepLast(known, mostKnown);
    return rows;
  };

  const addition = statement(({ list, projectId, createdAt }: Added) => {
    const around = endOfRun(list, projectId, "first", sql`ends_at > ${createdAt}`);
    const update = sql`
      update runs set count = count + 1
      where project_id = ${projectId} and list = ${list} and ends_at = ${around}`;
    return { compile: () => update.compile(db) };
  });

  const endsOf = async (list: CreationList, projectId: string) =>
    known.get(`${list} ${projectId}`) ?? (await look(list, projectId)).map((run) => run.ends_at);

  return {
    add: (list, { projectId, createdAt }) => [
      ...(runLock ? [sql.raw(runLock.shared).compile(db)] : []),
      addition({ list, projectId, createdAt }),
    ],

    async remove(tx, list, rows) {
      if (rows.length === 0) return;
      if (runLock) await sql.raw(runLock.shared).execute(tx);
      for (const [projectId, some] of Map.groupBy(rows, (row) => row.projectId)) {
        const times = given(
          ["bigint"],
          some.map(({ createdAt }) => [createdAt]),
        );
        // Rows after all runs are in no count: their end is NULL.
        await sql`
          with gone as (
            select ${endOfRun(list, projectId, "first", sql`ends_at > times.c0`)} as run_end from ${times} as times)
          update runs set count = count - (select count(*) from gone where run_end = ends_at)
          where project_id = ${projectId} and list = ${list} and ends_at in (select run_end from gone)`.execute(tx);
      }
    },

    async count(list, query) {
      const { projectId, after, before } = query;
      // The time alone adds no condition, but tells PostgreSQL how few rows there are.
      const from = after ? sql<boolean>`created_at >= ${after.at} and ${beyond(">", after)}` : always;
      const to = before ? sql<boolean>`created_at <= ${before.at} and ${beyond("<", before)}` : always;
      const counted = (begin: RawBuilder<boolean>, end: RawBuilder<boolean>) =>
        sql<number>`(select count(*) from ${sql.table(list)} where project_id = ${projectId} and ${begin} and ${end})`;
      // No run ends within a moment.
      if (after && before && before.at - after.at <= 1) return (await read(db, counted(from, to))) ?? 0;

      for (;;) {
        const ends = await endsOf(list, projectId);
        const first = after ? (ends.find((end) => end > after.at) ?? forever) : never;
        const last = (before ? ends.findLast((end) => end <= before.at) : ends.at(-1)) ?? never;
        const summed = sql`(
          select coalesce(sum(count), 0) from runs
          where project_id = ${projectId} and list = ${list} and ends_at > ${first} and ends_at <= ${last}
        )`;
        const upTo = after ? sql`${counted(from, sql`created_at < ${first}`)} + ${summed}` : summed;
        const isCut = first < last;
        const [some, rest] = isCut ? [upTo, counted(sql`created_at >= ${last}`, to)] : [sql`0`, counted(from, to)];
        const reliedOn = isCut ? [first, last].filter((end) => end !== never) : [];
        // One statement, so that nothing is inserted, deleted or joined between its parts.
        const { rows } = await sql<{ summed: number; rest: number; ends: number }>`
          select cast(${some} as bigint) as summed, cast(${rest} as bigint) as rest,
            ${endsThere(list, projectId, reliedOn)} as ends`.execute(db);
        const found = rows[0] ?? { summed: 0, rest: 0, ends: 0 };
        if (found.ends !== reliedOn.length) {
          known.delete(`${list} ${projectId}`);
          continue;
        }
        const isBehindAll = last === (ends.at(-1) ?? never);
        if (isBehindAll && found.rest > (after ? 2 : 1) * runLength) await look(list, projectId);
        return found.summed + found.rest;
      }
    },

    async behindNewest(list, projectId, newer) {
      const runs = await look(list, projectId);
      const rest = await read(
        db,
        sql<number>`(
        select count(*) from ${sql.table(list)}
        where project_id = ${projectId} and created_at >= ${runs.at(-1)?.ends_at ?? never}
      )`,
      );
      let left = newer;
      for (const { ends_at: end, count } of [{ ends_at: forever, count: rest ?? 0 }, ...runs.toReversed()]) {
        if (left >= count) {
          left -= count;
          continue;
        }
        const { rows } = await sql<Required<Moment>>`
          select created_at as at, id from ${sql.table(list)} where project_id = ${projectId} and created_at < ${end}
          order by created_at desc, id desc limit 1 offset ${left}`.execute(db);
        return rows[0];
      }
      return undefined;
    },

    async join(list, projectId) {
      for (const { after, last } of shortRuns(await look(list, projectId), runLength)) {
        await db.transaction().execute(async (tx) => {
          if (runLock) await sql.raw(runLock.exclusive).execute(tx);
          const own = sql`project_id = ${projectId} and list = ${list} and ends_at > ${after}`;
          const sum = sql`(select sum(count) from runs where ${own} and ends_at <= ${last})`;
          await sql`update runs set count = ${sum} where ${own} and ends_at = ${last}`.execute(tx);
          await sql`delete from runs where ${own} and ends_at < ${last}`.execute(tx);
        });
        await nextTurn();
      }
      known.delete(`${list} ${projectId}`);
    },
  };
}

/** groups of neighbours that fit into one run: all after `after`, up to `last` */
function shortRuns(runs: Run[], runLength: number): { after: number; last: number }[] {
  const groups: { after: number; last: number; count: number; length: number }[] = [];
  let after = never;
  for (const { ends_at: last, count } of runs) {
    const group = groups.at(-1);
    if (group && group.count + count <= runLength && group.length <= joinsAtOnce) {
      group.last = last;
      group.count += count;
      group.length++;
    } else groups.push({ after, last, count, length: 1 });
    after = last;
  }
  return groups.filter(({ length }) => length > 1);
}

/** the one number that a statement returns; undefined for NULL */
async function read(db: Database, number: RawBuilder<number | null>): Promise<number | undefined> {
  const { rows } = await sql<{ number: number | null }>`select cast(${number} as bigint) as number`.execute(db);
  return rows[0]?.number ?? undefined;
}

/** how many of these ends exist */
function endsThere(list: CreationList, projectId: string, ends: number[]): RawBuilder<number> {
  if (ends.length === 0) return sql`0`;
  return sql`(
    select count(*) from runs where project_id = ${projectId} and list = ${list} and ends_at in (${sql.join(ends)})
  )`;
}

/** the end of the first or last run that meets the condition; NULL if there is none */
function endOfRun(
  list: CreationList,
  projectId: string,
  which: "first" | "last",
  condition: RawBuilder<boolean>,
): RawBuilder<number | null> {
  const order = sql.raw(which === "first" ? "asc" : "desc");
  // Not `min` or `max`: PostgreSQL may read all runs for those.
  return sql`(
    select ends_at from runs where project_id = ${projectId} and list = ${list} and ${condition}
    order by ends_at ${order} limit 1
  )`;
}

/** the first moment after all runs */
function endOfRuns(list: CreationList, projectId: string): RawBuilder<number> {
  return sql`coalesce(${endOfRun(list, projectId, "last", always)}, ${never})`;
}

/** the moment at which the next run would end; NULL while there are too few rows */
function nextCut(list: CreationList, projectId: string, runLength: number): RawBuilder<number | null> {
  return sql`(
    select created_at from ${sql.table(list)}
    where project_id = ${projectId} and created_at >= ${endOfRuns(list, projectId)}
    order by created_at limit 1 offset ${runLength}
  )`;
}
