/** Rows of tables in which each row belongs to a team: how many a team has, and pages of them. */

import type { Page, PageQuery } from "../../core/ports/store.ts";
import type { Database } from "../tables.ts";
import { behind, readPage } from "./page.ts";

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
  const { teamId, order } = query;
  return readPage<R, T>(
    {
      query,
      sort: { column: "created_at", type: "number" },
      list: { of: table, teamId },
      read: async (position, limit) => {
        const rows = await db
          .selectFrom(table)
          .selectAll()
          .where("team_id", "=", teamId)
          .where((eb) => eb.and(position ? [behind(position, order, "created_at", "id")] : []))
          .orderBy("created_at", order)
          .orderBy("id", order)
          .limit(limit)
          .execute();
        // The caller names the table and the type of its rows together.
        return rows as unknown[] as R[];
      },
    },
    toValue,
  );
}
