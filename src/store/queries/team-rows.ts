/** Rows of tables in which each row belongs to a team: how many a team has, and pages of them. */

import type { Page, PageQuery } from "../../core/ports/store.ts";
import type { Database } from "../tables.ts";
import { pageByTime } from "./lists/page.ts";

type TeamTable = "secrets" | "templates";

export async function countOfTeam(db: Database, table: TeamTable, teamId: string): Promise<number> {
  const { count } = await db
    .selectFrom(table)
    .select((eb) => eb.fn.countAll<number | string>().as("count"))
    .where("team_id", "=", teamId)
    .executeTakeFirstOrThrow();
  return Number(count);
}

/** by the time of their creation */
export function pageOfTeam<R extends { id: string }, T>(
  db: Database,
  table: TeamTable,
  query: PageQuery & { teamId: string },
  toValue: (row: R) => T,
): Promise<Page<T>> {
  return pageByTime(db, { of: table, time: "created_at", owner: { teamId: query.teamId } }, query, toValue);
}
